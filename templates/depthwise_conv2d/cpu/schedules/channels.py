"""The channels-last form on a CPU, written in TIR."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.epilogue import finished
from templates.kernels.parameters import buffers, flat, whole
from templates.template import PARALLEL


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """One function: the weights in the order of the channels, then a task for each few rows."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.down, self.across = workload.used
        self.lanes: int = config["lanes"]
        self.vectors: int = config["vectors"]
        self.columns: int = config["columns"]
        self.rows: int = config["rows_per_task"]
        self.channels_inside = config["inner"] == "channels"
        self.taps_across = ir.unroll if config["unroll"] == "columns" else ir.serial
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial

    def function(self) -> Any:
        workload = self.workload
        bands = ceil_div(workload.out_height, self.rows)
        with IRBuilder() as builder, ir.prim_func(s_tir=True):
            ir.func_name("main")
            ir.func_attr({"tirx.noalias": True})
            *given, output = buffers(workload)
            with ir.sblock("root"):
                ir.reads(*map(whole, given))
                ir.writes(whole(output))
                self.x, self.w, *self.added, self.y = flat(workload, [*given, output])
                taps = self.down.count * self.across.count
                self.taps = ir.sblock_alloc_buffer((taps * workload.C,), "float32")
                self._order_weights()
                with self.loop(0, workload.B * bands) as task:
                    batch, band = ir.Bind(task // bands), ir.Bind(task % bands)
                    with ir.serial(0, self.rows) as row:
                        i = ir.Bind(band * self.rows + row)
                        with ir.If(i < workload.out_height), ir.Then():
                            self._row(batch, i)
        return builder.get()

    def _order_weights(self) -> None:
        """``taps[ky, kx, c]`` from ``w[c, 0, ky, kx]``."""
        C, (height, width) = self.workload.C, self.workload.kernel
        with (
            ir.serial(0, self.down.count) as ky,
            ir.serial(0, self.across.count) as kx,
            ir.serial(0, C) as c,
        ):
            tap = (ky + self.down.first) * width + kx + self.across.first
            if self.workload.is_flipped:
                tap = height * width - 1 - tap
            weight = self.w[c * (height * width) + tap].astype("float32")
            ir.buffer_store(self.taps, weight, [(ky * self.across.count + kx) * C + c])

    def _row(self, batch: Any, i: Any) -> None:
        """A row of outputs, whole patches, of which the last overlap those before."""
        width, channels = self.workload.out_width, self.lanes * self.vectors
        patches = (ceil_div(width, self.columns), width - self.columns, self.columns)
        blocks = (ceil_div(self.workload.C, channels), self.workload.C - channels, channels)
        outer, inner = (patches, blocks) if self.channels_inside else (blocks, patches)
        with ir.serial(0, outer[0]) as one:
            first = ir.Bind(tirx.min(one * outer[2], outer[1]))
            with ir.serial(0, inner[0]) as other:
                second = ir.Bind(tirx.min(other * inner[2], inner[1]))
                j, c = (first, second) if self.channels_inside else (second, first)
                self._patch(batch, i, j, c)

    def _patch(self, batch: Any, i: Any, j: Any, c: Any) -> None:
        W, C, s = self.workload.W, self.workload.C, self.workload.stride
        size = self.columns * self.vectors * self.lanes
        with ir.sblock("patch"):
            ir.reads()
            ir.writes()
            sums = ir.sblock_alloc_buffer((size,), "float32", scope="local")
            with ir.vectorized(0, self.lanes) as lane:
                for place in range(0, size, self.lanes):
                    ir.buffer_store(sums, tirx.const(0.0, "float32"), [place + lane])
            left = ir.Bind(j * s - self.across.before)
            reach = (self.columns - 1) * s + self.across.span
            with ir.If(tirx.all(left >= 0, left + reach <= W)):
                with ir.Then():
                    self._sum(sums, batch, i, left, c, inside=True)
                with ir.Else():
                    self._sum(sums, batch, i, left, c, inside=False)
            out = (batch * self.workload.out_height + i) * self.workload.out_width + j
            here = ir.Bind(out * C + c)
            with ir.vectorized(0, self.lanes) as lane:
                for column, vector in self._places():
                    total = sums[self._sum_of(column, vector) + lane]
                    at = here + column * C + vector * self.lanes + lane
                    channel = c + vector * self.lanes + lane
                    value = finished(self.workload, total, self.added, channel, [at])
                    ir.buffer_store(self.y, value, [at])

    def _sum(self, sums: Any, batch: Any, i: Any, left: Any, c: Any, inside: bool) -> None:
        """Add all taps of a patch whose first column of input is ``left``; ``inside`` tells that
        no column of it is padding."""
        workload = self.workload
        H, W, C, s, d = workload.H, workload.W, workload.C, workload.stride, workload.dilation
        with ir.serial(0, self.down.count) as ky:
            row = ir.Bind(i * s + ky * d - self.down.before)
            with ir.If(tirx.all(row >= 0, row < H)), ir.Then():
                line = ir.Bind((batch * H + row) * W)
                with self.taps_across(0, self.across.count) as kx:
                    tap = ir.Bind((ky * self.across.count + kx) * C + c)
                    for column in range(self.columns):
                        at = left + kx * d + column * s
                        if inside:
                            self._add(sums, column, (line + at) * C + c, tap)
                        else:
                            with ir.If(tirx.all(at >= 0, at < W)), ir.Then():
                                self._add(sums, column, (line + at) * C + c, tap)

    def _add(self, sums: Any, column: int, source: Any, tap: Any) -> None:
        """One tap of one column: a multiply-add for each vector of channels."""
        start = ir.Bind(source)
        with ir.vectorized(0, self.lanes) as lane:
            for vector in range(self.vectors):
                ahead = vector * self.lanes + lane
                index = self._sum_of(column, vector) + lane
                value = self.x[start + ahead].astype("float32") * self.taps[tap + ahead]
                ir.buffer_store(sums, sums[index] + value, [index])

    def _places(self) -> list[tuple[int, int]]:
        return [(column, v) for column in range(self.columns) for v in range(self.vectors)]

    def _sum_of(self, column: int, vector: int) -> int:
        return (column * self.vectors + vector) * self.lanes
