"""Search space of the input's gradient, channels first, on CUDA."""

from __future__ import annotations

from templates.depthwise_conv2d.cuda.gradients.input_channels import CudaInputChannels
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.limits import DeviceLimits


class CudaInputPlanes(CudaInputChannels):
    """A thread sums a patch of elements of one channel, as ``CudaInputChannels`` of several.

    Neighbouring threads have neighbouring patches of a channel, and a block has ``lanes`` channels.
    Columns that fill a vector are stored at once.
    """

    name = "input_planes"

    def applies(self, workload: DepthwiseConv2dWorkload, limits: DeviceLimits) -> bool:
        """Accept gradients of an input in layout NCHW on CUDA that no forward workload computes.

        The taps must fit into shared memory, and the kernel must be at most 15 wide or not dilated.
        """
        return workload.layout == "NCHW" and self._computes(workload, limits)
