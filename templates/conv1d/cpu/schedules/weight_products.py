"""The programs of ``CpuWeightProducts``: the weight's gradient of dense channels, as a product."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.conv1d.cpu.schedules.products import ZERO, Element, Product
from templates.conv1d.cpu.weight_products import CpuWeightProducts
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import gradient_of_sums


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config, *CpuWeightProducts.extents(workload)).function()


class _Program(Product):
    """A product whose lines are filters and whose columns are taps of channels. A chunk is a range
    of outputs of a signal. If there is a bias, its gradient is one more column, whose elements are
    1."""

    sheets = 1

    def chunks(self, sheet: Any) -> Any:
        return self.workload.B * ceil_div(self.workload.length, self.depth)

    def chunk(self, sheet: Any, number: Any) -> tuple[Any, Any]:
        each = ceil_div(self.workload.length, self.depth)
        b, first = ir.Bind(number // each), ir.Bind(number % each * self.depth)
        return (b, first), ir.Bind(tirx.min(self.depth, self.workload.length - first))

    def line(self, chunk: Any, line: Any) -> Element:
        workload, (b, first) = self.workload, chunk

        def gradient(i: Any) -> Any:
            at = self.output_place(b, line, first + i)
            return gradient_of_sums(workload, self.second[at], *(each[at] for each in self.z))

        return gradient

    def column(self, sheet: Any, chunk: Any, column: Any) -> Element:
        workload, (b, first) = self.workload, chunk
        c, t = ir.Bind(column // workload.N), ir.Bind(column % workload.N)
        start = ir.Bind(first * workload.stride + t * workload.dilation - workload.left)

        def sample(i: Any) -> Any:
            place = start + i * workload.stride
            at = self.input_place(b, c, place)
            inside = tirx.all(place >= 0, place < workload.M, c < workload.C)
            value = tirx.if_then_else(inside, widened(self.first[at], workload.dtype), ZERO)
            if not workload.bias:
                return value
            return tirx.if_then_else(c < workload.C, value, tirx.const(1.0, "float32"))

        return sample

    def place(self, sheet: Any, line: Any, column: Any) -> tuple[Any, Any]:
        workload, taps = self.workload, self.workload.C * self.workload.N
        t = column % workload.N
        tap = workload.N - 1 - t if workload.kind == "convolve" else t
        at = line * taps + column - t + tap
        if workload.bias:
            at = tirx.if_then_else(column < taps, at, workload.out_channels * taps + line)
        return at, tirx.const(True)
