"""Program of the weight's gradient, channels last, on a CPU, written in TIR."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cpu.weight_channels import padded_plane
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.conversions import narrowed, widened
from templates.kernels.epilogue import gradient_of_sums
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat
from templates.kernels.registers import Sums
from templates.template import PARALLEL


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """One function with a task for each vector of channels.

    If the last vector would not be whole, it overlaps the vector before it.
    """

    def __init__(self, workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.down, self.across = workload.used_taps
        self.height, self.width = padded_plane(workload)
        self.lanes: int = config["lanes"]
        self.tap_rows: int = config["tap_rows"]
        self.tap_columns: int = config["tap_columns"]
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial
        self.taps = self.down.count * self.across.count

    def function(self) -> Any:
        workload = self.workload
        with main_function(workload) as (builder, arguments):
            self.x, self.g, *self.z, self.y = flat(workload, arguments)
            with self.loop(0, ceil_div(workload.C, self.lanes)) as task:
                self._task(ir.Bind(tirx.min(task * self.lanes, workload.C - self.lanes)))
        return builder.get()

    def _task(self, c: Any) -> None:
        with opaque_block("task"):
            sums = self.taps + self.workload.bias
            self.plane = self._vectors(self.height * self.width)
            self.row = self._vectors(self.workload.out_width)
            self.image, self.total = self._vectors(sums), self._vectors(sums)
            self._clear(self.plane, self.height * self.width)  # the padding stays zero
            self._clear(self.total, sums)
            with ir.serial(0, self.workload.B) as batch:
                self._copy_plane(batch, c)
                self._clear(self.image, sums)
                with ir.serial(0, self.workload.out_height) as i:
                    self._copy_row(batch, i, c)
                    self._sum_row(i)
                with ir.serial(0, sums) as n, ir.vectorized(0, self.lanes) as lane:
                    at = n * self.lanes + lane
                    ir.buffer_store(self.total, self.total[at] + self.image[at], [at])
            self._store_sums(c)

    def _vectors(self, count: int) -> Any:
        return ir.sblock_alloc_buffer((count * self.lanes,), "float32")

    def _clear(self, buffer: Any, count: int) -> None:
        with ir.serial(0, count) as n, ir.vectorized(0, self.lanes) as lane:
            ir.buffer_store(buffer, tirx.const(0.0, "float32"), [n * self.lanes + lane])

    def _copy_plane(self, batch: Any, c: Any) -> None:
        """Copy the rows and columns of the input that taps meet."""
        workload, (top, left) = self.workload, (self.down.before, self.across.before)
        H, W, C = workload.H, workload.W, workload.C
        rows = range(max(0, -top), min(H, self.height - top))
        columns = range(max(0, -left), min(W, self.width - left))
        if not rows or not columns:
            return
        with ir.serial(0, len(rows)) as h, ir.serial(0, len(columns)) as w:
            row, column = h + rows.start, w + columns.start
            source = ir.Bind(((batch * H + row) * W + column) * C + c)
            to = ir.Bind(((row + top) * self.width + column + left) * self.lanes)
            with ir.vectorized(0, self.lanes) as lane:
                value = widened(self.x[source + lane], workload.dtype)
                ir.buffer_store(self.plane, value, [to + lane])

    def _copy_row(self, batch: Any, i: Any, c: Any) -> None:
        """Copy a row of the gradient of the sums. Add it to the bias's gradient if there is one."""
        workload = self.workload
        line = ir.Bind((batch * workload.out_height + i) * workload.out_width)
        with ir.serial(0, workload.out_width) as j:
            source = ir.Bind((line + j) * workload.C + c)
            with ir.vectorized(0, self.lanes) as lane:
                given = [each[source + lane] for each in (self.g, *self.z)]
                ir.buffer_store(
                    self.row, gradient_of_sums(workload, *given), [j * self.lanes + lane]
                )
        if workload.bias:
            with opaque_block("bias"):
                sums = Sums(1, self.lanes)
                sums.zero()
                with (
                    ir.serial(0, workload.out_width) as j,
                    ir.vectorized(0, self.lanes) as lane,
                ):
                    sums.add(0, lane, self.row[j * self.lanes + lane])
                with ir.vectorized(0, self.lanes) as lane:
                    self._add(self.taps, lane, sums.load(0, lane))

    def _sum_row(self, i: Any) -> None:
        """Sum all taps over a row of the gradient. The last rows of taps may have separate code."""
        rows, rest = divmod(self.down.count, self.tap_rows)
        with ir.serial(0, rows) as group:
            self._sum_rows(i, ir.Bind(group * self.tap_rows), self.tap_rows)
        if rest:
            self._sum_rows(i, ir.Bind(rows * self.tap_rows), rest)

    def _sum_rows(self, i: Any, ky: Any, rows: int) -> None:
        """Sum ``rows`` rows of taps from ``ky`` on, if any of these rows meets the input."""
        top, s, d = self.down.before, self.workload.stride, self.down.step
        first = ir.Bind(i * s + ky * d)
        reach = (rows - 1) * d
        with ir.If(tirx.all(first + reach >= top, first < top + self.workload.H)), ir.Then():
            for begin in range(0, self.across.count, self.tap_columns):
                end = min(begin + self.tap_columns, self.across.count)
                self._sum_taps(first, ky, rows, range(begin, end))

    def _sum_taps(self, first: Any, ky: Any, rows: int, columns: range) -> None:
        s, lanes = self.workload.stride, self.lanes
        with opaque_block("taps"):
            sums = Sums(rows * len(columns), lanes)
            sums.zero()
            lines = [ir.Bind((first + r * self.down.step) * self.width) for r in range(rows)]
            with ir.serial(0, self.workload.out_width) as j, ir.vectorized(0, lanes) as lane:
                gradient = self.row[j * lanes + lane]
                for r, line in enumerate(lines):
                    for n, kx in enumerate(columns):
                        at = (line + j * s + kx * self.across.step) * lanes + lane
                        sums.add(r * len(columns) + n, lane, self.plane[at] * gradient)
            with ir.vectorized(0, lanes) as lane:
                for r in range(rows):
                    for n, kx in enumerate(columns):
                        tap = (ky + r) * self.across.count + kx
                        self._add(tap, lane, sums.load(r * len(columns) + n, lane))

    def _add(self, number: Any, lane: Any, value: Any) -> None:
        at = number * self.lanes + lane
        ir.buffer_store(self.image, self.image[at] + value, [at])

    def _store_sums(self, c: Any) -> None:
        """Store the sums in the weight's order; taps that meet no input are zero."""
        workload, (height, width) = self.workload, self.workload.kernel
        with ir.serial(0, self.lanes) as lane:
            first = ir.Bind((c + lane) * (height * width))
            with ir.serial(0, height) as ky, ir.serial(0, width) as kx:
                row, column = ky - self.down.first, kx - self.across.first
                there = (row * self.across.count + column) * self.lanes + lane
                inside = tirx.all(
                    row >= 0, row < self.down.count, column >= 0, column < self.across.count
                )
                value = tirx.if_then_else(inside, self.total[there], tirx.const(0.0, "float32"))
                at = first + ky * width + kx
                ir.buffer_store(self.y, narrowed(value, workload.dtype), [at])
            if workload.bias:
                bias = self.total[self.taps * self.lanes + lane]
                at = workload.C * (height * width) + c + lane
                ir.buffer_store(self.y, narrowed(bias, workload.dtype), [at])
