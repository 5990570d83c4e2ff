"""The programs of ``CpuInputProducts``: the input's gradient of dense channels, as products."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.conv1d.cpu.input_products import CpuInputProducts
from templates.conv1d.cpu.schedules.products import ZERO, Element, Product
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import gradient_of_sums


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config, *CpuInputProducts.extents(workload)).function()


class _Program(Product):
    """A product with a sheet for each phase. Its lines are channels, and its columns are the
    samples of the phase in all signals.

    A phase has the samples with the same remainder modulo the stride, because these meet the same
    taps. A chunk is some filters at one of these taps.
    """

    def __init__(self, workload: Conv1dWorkload, config: dict[str, Any], *extents: int) -> None:
        super().__init__(workload, config, *extents)
        self.sheets = CpuInputProducts.sheets(workload)
        self.each = ceil_div(workload.M, workload.stride)
        self.common = math.gcd(workload.stride, workload.dilation)
        self.apart = workload.stride // self.common  # from one tap that meets a phase to the next
        self.parts = ceil_div(workload.out_channels, self.depth)

    def chunks(self, sheet: Any) -> Any:
        taps = (self.workload.N - 1 - self._first(sheet)) // self.apart + 1
        return tirx.if_then_else(self._first(sheet) < self.workload.N, taps * self.parts, 0)

    def chunk(self, sheet: Any, number: Any) -> tuple[Any, Any]:
        t = ir.Bind(self._first(sheet) + number // self.parts * self.apart)
        first = ir.Bind(number % self.parts * self.depth)
        return (t, first), ir.Bind(tirx.min(self.depth, self.workload.out_channels - first))

    def line(self, chunk: Any, line: Any) -> Element:
        workload, (t, first) = self.workload, chunk
        tap = workload.N - 1 - t if workload.kind == "convolve" else t

        def weight(i: Any) -> Any:
            at = ((first + i) * workload.C + line) * workload.N + tap
            return widened(self.second[at], workload.dtype)

        return weight

    def column(self, sheet: Any, chunk: Any, column: Any) -> Element:
        workload, (t, first) = self.workload, chunk
        s = workload.stride
        b = ir.Bind(column // self.each)
        ahead = (sheet + workload.left) // s - t * workload.dilation // s
        place = ir.Bind(ahead + column % self.each)

        def gradient(i: Any) -> Any:
            at = self.output_place(b, first + i, place)
            value = gradient_of_sums(workload, self.first[at], *(each[at] for each in self.z))
            return tirx.if_then_else(tirx.all(place >= 0, place < workload.length), value, ZERO)

        return gradient

    def place(self, sheet: Any, line: Any, column: Any) -> tuple[Any, Any]:
        workload = self.workload
        b, m = column // self.each, sheet + column % self.each * workload.stride
        return self.input_place(b, line, m), m < workload.M

    def _first(self, sheet: Any) -> Any:
        """Return the first tap that meets the samples of a phase, or N or more if none does."""
        behind = (sheet + self.workload.left) % self.workload.stride
        inverse = pow(self.workload.dilation // self.common, -1, self.apart)
        found = (behind // self.common).astype("int64") * inverse % self.apart
        is_met = behind % self.common == 0
        return tirx.if_then_else(is_met, found.astype("int32"), self.workload.N)
