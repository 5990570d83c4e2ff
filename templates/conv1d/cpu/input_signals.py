"""The space of the input's gradient on a CPU, if output channels are of all input channels."""

from __future__ import annotations

from templates.arithmetic import DIRECT_WITH_PADDING
from templates.conv1d.cpu.signals import CpuSignals
from templates.conv1d.workload import MAX_INPUT, Conv1dWorkload
from templates.limits import DeviceLimits
from templates.spaces.space import ConfigSpace
from templates.template import Config, Template

FORWARD = CpuSignals()


class CpuInputSignals(Template[Conv1dWorkload]):
    """At stride 1 it is the convolution of the sums' gradients with the taps turned round, and
    input and output channels of the weight in each other's place: ``signals`` of that form, which
    orders the weights anyway, and multiplies by an activation's derivative as it stages."""

    name = "input_signals"
    kind = "cpu"
    version = FORWARD.version
    arithmetic = DIRECT_WITH_PADDING
    computes_gradients = True

    def applies(self, workload: Conv1dWorkload, limits: DeviceLimits) -> bool:
        """On a CPU, for the gradient of the input of dense channels at stride 1, if the turned
        convolution begins no later than the gradient and is within the limits of one."""
        return (
            super().applies(workload, limits)
            and workload.direction == "backward_input"
            and workload.is_dense
            and workload.stride == 1
            and max(workload.pads) < workload.span
            and workload.length <= MAX_INPUT
        )

    def space(self, workload: Conv1dWorkload, limits: DeviceLimits) -> ConfigSpace:
        space = FORWARD.space(turned(workload), limits)
        space.template, space.version = self.name, self.version
        return space

    def default(self, workload: Conv1dWorkload, limits: DeviceLimits) -> Config:
        return FORWARD.default(turned(workload), limits) | {"template": self.name}

    def features(
        self, workload: Conv1dWorkload, config: Config, limits: DeviceLimits
    ) -> dict[str, float]:
        return FORWARD.features(turned(workload), config, limits)


def turned(workload: Conv1dWorkload) -> Conv1dWorkload:
    """The forward workload, but for the order of its weight."""
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
