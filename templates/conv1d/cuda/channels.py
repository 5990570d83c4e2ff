"""CudaChannels: depthwise convolution's template for channels-last layout, applied to signals."""

from __future__ import annotations

from templates.conv1d.as_image_column import ByColumn
from templates.depthwise_conv2d.cuda.channels import CudaChannels as DepthwiseChannels


class CudaChannels(ByColumn):
    """Channels-last signals, computed by depthwise convolution's ``CudaChannels``."""

    template = DepthwiseChannels()
    name = template.name
    kind = "cuda"
    version = template.version
    arithmetic = template.arithmetic
