"""CpuInputSignals: the search space of the input's gradient of dense channels at stride 1, on a
CPU."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.conv1d.cpu.signals import CpuSignals
from templates.conv1d.workload import MAX_INPUT, Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Features, Template

FORWARD = CpuSignals()


class CpuInputSignals(Template[Conv1dWorkload]):
    """The input's gradient at stride 1, which is a forward convolution.

    The sums' gradients are convolved with the reversed taps, and the weight's input and output
    channels are swapped. ``CpuSignals`` computes this convolution, because that template reorders
    the weights anyway. Here it also multiplies by the activation's derivative while it stages.
    """

    name = "input_signals"
    kind = "cpu"
    version = FORWARD.version
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """Return whether the workload is the input's gradient of dense channels at stride 1, on a
        CPU. The forward convolution's padding must not be negative, and its input must be within
        the limit."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_input"
            and workload.is_dense
            and workload.stride == 1
            and max(workload.pads) < workload.span
            and workload.length <= MAX_INPUT
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = FORWARD.space(forward_equivalent(workload), limits)
        space.template, space.version = self.name, self.version
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return FORWARD.default(forward_equivalent(workload), limits) | {"template": self.name}

    def features(self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits) -> Features:
        return FORWARD.features(forward_equivalent(workload), config, limits)


def forward_equivalent(workload: Conv1dWorkload) -> Conv1dWorkload:
    """Return the forward workload that computes the gradient if its weight's axes are reordered."""
    before, behind = (workload.span - 1 - side for side in workload.pads)
    return Conv1dWorkload(
        M=workload.length,
        N=workload.N,
        kind="correlate" if workload.kind == "convolve" else "convolve",
        B=workload.B,
        C=workload.out_channels,
        F=workload.C,
        groups=1,
        dilation=workload.dilation,
        padding=(before, behind),
        layout=workload.layout,
        dtype=workload.dtype,
        max_error=workload.max_error,
    )
