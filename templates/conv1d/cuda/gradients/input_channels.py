"""CudaInputChannels: depthwise convolution's template for the input's gradient with channels last,
applied to signals."""

from __future__ import annotations

from templates.conv1d.as_image_column import GradientByColumn
from templates.depthwise_conv2d.cuda.gradients.input_channels import CudaInputChannels as Depthwise


class CudaInputChannels(GradientByColumn):
    """The input's gradient with channels last, by depthwise convolution's ``CudaInputChannels``."""

    template = Depthwise()
    name = template.name
    kind = "cuda"
    version = template.version
    arithmetic = template.arithmetic
