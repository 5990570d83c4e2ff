"""The channels-last form on CUDA: that of depthwise convolution."""

from __future__ import annotations

from templates.conv1d.column import ByColumn
from templates.depthwise_conv2d.cuda.channels import CudaChannels as DepthwiseChannels


class CudaChannels(ByColumn):
    """See depthwise convolution's ``channels``."""

    template = DepthwiseChannels()
    name = template.name
    kind = "cuda"
    version = template.version
    arithmetic = template.arithmetic
