"""The input's gradient on a CPU: that of depthwise convolution."""

from __future__ import annotations

from templates.conv1d.row import ByRow
from templates.depthwise_conv2d.cpu.input_pieces import CpuInputPieces as DepthwiseInputPieces


class CpuInputPieces(ByRow):
    """See depthwise convolution's ``input_pieces``."""

    template = DepthwiseInputPieces()
    name = template.name
    kind = "cpu"
    version = template.version
    arithmetic = template.arithmetic
