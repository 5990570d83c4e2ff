"""CpuChannels: depthwise convolution's template for channels-last layout, applied to signals."""

from __future__ import annotations

from templates.conv1d.as_image_column import ByColumn
from templates.depthwise_conv2d.cpu.channels import CpuChannels as DepthwiseChannels


class CpuChannels(ByColumn):
    """Channels-last signals, computed by depthwise convolution's ``CpuChannels``."""

    template = DepthwiseChannels()
    name = template.name
    kind = "cpu"
    version = template.version
    arithmetic = template.arithmetic
