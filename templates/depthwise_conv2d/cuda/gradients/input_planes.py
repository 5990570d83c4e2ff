"""The space of the input's gradient, channels first, on CUDA."""

from __future__ import annotations

from templates.depthwise_conv2d.cuda.gradients.input_channels import CudaInputChannels
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.limits import DeviceLimits


class CudaInputPlanes(CudaInputChannels):
    """As with channels last, but a thread has one channel, and neighbouring threads have
    neighbouring patches of it; a block has ``lanes`` channels. Columns that fill a vector are
    stored at once."""

    name = "input_planes"

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """On CUDA, for the gradient of an input in layout NCHW that is no forward workload, if the
        taps fit in shared memory, and the kernel is at most 15 wide or its taps are side by
        side."""
        return workload.layout == "NCHW" and self._computes(workload, limits)
