"""Program of the direct form on CUDA, written in TIR: nothing is staged."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.function import main_function, opaque_block


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """Builder of one function. A thread sums a few columns of a row; threads follow the layout."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.down, self.across = workload.used_taps
        self.threads, self.columns = config["threads"], config["columns"]
        self.rows_loop = ir.unroll if config["unroll"] == "rows" else ir.serial
        self.columns_loop = ir.serial if config["unroll"] == "none" else ir.unroll

    def function(self) -> Any:
        workload = self.workload
        patches = ceil_div(workload.out_width, self.columns)
        extents = workload.place(workload.B, workload.out_channels, workload.out_height, patches)
        total = extents[0] * extents[1] * extents[2] * extents[3]
        with main_function(workload) as (builder, arguments):
            self.x, self.w, *self.added, self.y = arguments
            blocks = ceil_div(total, self.threads)
            with (
                ir.thread_binding(0, blocks, thread="blockIdx.x") as block,
                ir.thread_binding(0, self.threads, thread="threadIdx.x") as thread,
            ):
                index = ir.Bind(block * self.threads + thread)
                with ir.If(index < total), ir.Then():
                    place = []
                    for extent in reversed(extents):
                        place.append(ir.Bind(index % extent))
                        index = ir.Bind(index // extent)
                    b, c, i, patch = workload.axes(place[::-1])
                    # The last patch of a row overlaps the patch before it.
                    last = max(0, workload.out_width - self.columns)
                    self._patch(b, c, i, ir.Bind(tirx.min(patch * self.columns, last)))
        return builder.get()

    def _patch(self, b: Any, c: Any, i: Any, j: Any) -> None:
        workload, s, d = self.workload, self.workload.stride, self.workload.dilation
        with opaque_block("patch"):
            sums = ir.sblock_alloc_buffer((self.columns,), "float32", scope="local")
            for column in range(self.columns):
                ir.buffer_store(sums, tirx.const(0.0, "float32"), [column])
            channel = ir.Bind(c // workload.multiplier)
            with self.rows_loop(0, self.down.count) as ky:
                row = ir.Bind(i * s + ky * d - self.down.before)
                with (
                    ir.If(tirx.all(row >= 0, row < workload.H)),
                    ir.Then(),
                    self.columns_loop(0, self.across.count) as kx,
                ):
                    tap = workload.tap(ky + self.down.first, kx + self.across.first)
                    weight = ir.Bind(widened(self.w[c, 0, tap[0], tap[1]], workload.dtype))
                    for column in range(self.columns):
                        at = (j + column) * s + kx * d - self.across.before
                        with ir.If(tirx.all(at >= 0, at < workload.W)), ir.Then():
                            sample = self.x[workload.place(b, channel, row, at)].astype("float32")
                            ir.buffer_store(sums, sums[column] + sample * weight, [column])
            for column in range(self.columns):
                at = workload.place(b, c, i, j + column)
                ir.buffer_store(
                    self.y, apply_epilogue(workload, sums[column], self.added, c, at), list(at)
                )
