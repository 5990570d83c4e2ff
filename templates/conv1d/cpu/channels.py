"""The channels-last form on a CPU: that of depthwise convolution."""

from __future__ import annotations

from templates.conv1d.column import ByColumn
from templates.depthwise_conv2d.cpu.channels import CpuChannels as DepthwiseChannels


class CpuChannels(ByColumn):
    """See depthwise convolution's ``channels``."""

    template = DepthwiseChannels()
    name = template.name
    kind = "cpu"
    version = template.version
    arithmetic = template.arithmetic
