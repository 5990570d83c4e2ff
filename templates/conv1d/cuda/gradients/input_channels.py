"""The input's gradient, channels last, on CUDA: that of depthwise convolution."""

from __future__ import annotations

from templates.conv1d.column import GradientByColumn
from templates.depthwise_conv2d.cuda.gradients.input_channels import CudaInputChannels as Depthwise


class CudaInputChannels(GradientByColumn):
    """See depthwise convolution's ``input_channels``."""

    template = Depthwise()
    name = template.name
    kind = "cuda"
    version = template.version
    arithmetic = template.arithmetic
