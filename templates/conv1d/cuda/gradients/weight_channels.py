"""The weight's gradient, channels last, on CUDA: that of depthwise convolution."""

from __future__ import annotations

from templates.conv1d.column import GradientByColumn
from templates.depthwise_conv2d.cuda.gradients.weight_channels import (
    CudaWeightChannels as Depthwise,
)


class CudaWeightChannels(GradientByColumn):
    """See depthwise convolution's ``weight_channels``."""

    template = Depthwise()
    name = template.name
    kind = "cuda"
    version = template.version
    arithmetic = template.arithmetic
