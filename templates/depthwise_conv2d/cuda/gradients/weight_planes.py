"""The space of the weight's gradient, channels first, on CUDA."""

from __future__ import annotations

from templates.depthwise_conv2d.cuda.gradients.weight_channels import CudaWeightChannels
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.limits import DeviceLimits


class CudaWeightPlanes(CudaWeightChannels):
    """As with channels last, straight from memory, but a block has one channel, and neighbouring
    threads have neighbouring columns of it."""

    name = "weight_planes"

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """On CUDA, for the gradient of a weight in layout NCHW."""
        return (
            limits.kind == self.kind
            and workload.direction == "backward_weight"
            and workload.layout == "NCHW"
        )
