"""CpuWeightPieces: depthwise convolution's template for the weight's gradient, applied to
signals."""

from __future__ import annotations

from templates.conv1d.as_image_row import ByRow
from templates.depthwise_conv2d.cpu.weight_pieces import CpuWeightPieces as Depthwise


class CpuWeightPieces(ByRow):
    """The weight's gradient of channels apart, by depthwise convolution's ``CpuWeightPieces``."""

    template = Depthwise()
    name = template.name
    kind = "cpu"
    version = template.version
    arithmetic = template.arithmetic
