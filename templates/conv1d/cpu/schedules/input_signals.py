"""The programs of ``CpuInputSignals``: those of ``CpuSignals`` for the gradient as a forward
convolution."""

from __future__ import annotations

from typing import Any

from templates.conv1d.cpu.input_signals import forward_equivalent
from templates.conv1d.cpu.schedules.signals import Program
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.epilogue import gradient_of_sums


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program(Program):
    """Builder of the program of ``forward_equivalent(workload)``.

    The function takes the gradient's arguments. ``added`` holds the forward sums here, instead of
    bias and residual as for a forward workload.
    """

    def __init__(self, workload: Conv1dWorkload, config: dict[str, Any]) -> None:
        super().__init__(forward_equivalent(workload), config)
        self.argument_workload = workload
        if workload.activation != "none":  # staging multiplies by the derivative
            self.is_staged |= self.reads_in_place
            self.reads_in_place = False

    def _weight(self, each: Any, f: Any, c: Any) -> Any:
        return c * self.argument_workload.C + f

    def _value(self, at: Any) -> Any:
        return gradient_of_sums(
            self.argument_workload, *(tensor[at] for tensor in (self.x, *self.added))
        )
