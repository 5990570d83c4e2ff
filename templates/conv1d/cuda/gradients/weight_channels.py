"""CudaWeightChannels: depthwise convolution's template for the weight's gradient with channels
last, applied to signals."""

from __future__ import annotations

from templates.conv1d.as_image_column import GradientByColumn
from templates.depthwise_conv2d.cuda.gradients.weight_channels import (
    CudaWeightChannels as Depthwise,
)


class CudaWeightChannels(GradientByColumn):
    """The weight's gradient with channels last, by depthwise convolution's
    ``CudaWeightChannels``."""

    template = Depthwise()
    name = template.name
    kind = "cuda"
    version = template.version
    arithmetic = template.arithmetic
