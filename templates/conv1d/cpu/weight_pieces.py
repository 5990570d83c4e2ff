"""The weight's gradient on a CPU: that of depthwise convolution."""

from __future__ import annotations

from templates.conv1d.row import ByRow
from templates.depthwise_conv2d.cpu.weight_pieces import CpuWeightPieces as Depthwise


class CpuWeightPieces(ByRow):
    """See depthwise convolution's ``weight_pieces``."""

    template = Depthwise()
    name = template.name
    kind = "cpu"
    version = template.version
    arithmetic = template.arithmetic
