"""The input's gradient on a CPU: that of depthwise convolution."""

from __future__ import annotations

from templates.conv1d.row import ByRow
from templates.depthwise_conv2d.cpu.input_pieces import CpuInputPieces as Depthwise


class CpuInputPieces(ByRow):
    """See depthwise convolution's ``input_pieces``."""

    template = Depthwise()
    name = template.name
    kind = "cpu"
    version = template.version
    arithmetic = template.arithmetic
