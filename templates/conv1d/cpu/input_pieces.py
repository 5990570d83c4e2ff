"""CpuInputPieces: depthwise convolution's template for the input's gradient, applied to signals."""

from __future__ import annotations

from templates.conv1d.as_image_row import ByRow
from templates.depthwise_conv2d.cpu.input_pieces import CpuInputPieces as Depthwise


class CpuInputPieces(ByRow):
    """The input's gradient of channels apart, by depthwise convolution's ``CpuInputPieces``."""

    template = Depthwise()
    name = template.name
    kind = "cpu"
    version = template.version
    arithmetic = template.arithmetic
