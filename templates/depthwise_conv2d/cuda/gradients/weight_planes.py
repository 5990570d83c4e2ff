"""Search space of the weight's gradient, channels first, on CUDA."""

from __future__ import annotations

from templates.depthwise_conv2d.cuda.gradients.weight_channels import CudaWeightChannels
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.limits import DeviceLimits


class CudaWeightPlanes(CudaWeightChannels):
    """A thread sums a tile of taps of one channel, as ``CudaWeightChannels`` of several.

    A block has one channel, neighbouring threads have neighbouring columns of it, and inputs come
    straight to registers.
    """

    name = "weight_planes"

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept gradients of a weight in layout NCHW on CUDA."""
        return (
            limits.kind == self.kind
            and workload.direction == "backward_weight"
            and workload.layout == "NCHW"
        )
