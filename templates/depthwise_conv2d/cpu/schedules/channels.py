"""Program of the channels-last form on a CPU, written in TIR."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat
from templates.kernels.registers import Sums
from templates.template import PARALLEL


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """Builder of one function, which puts the weights in the order of use, then runs the tasks."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.down, self.across = workload.used_taps
        self.lanes: int = config["lanes"]
        self.vectors: int = config["vectors"]
        self.width = self.lanes * self.vectors
        self.blocks = ceil_div(workload.C, self.width)
        self.columns: int = config["columns"]
        self.rows: int = config["rows_per_task"]
        self.channels_inside = config["inner"] == "channels"
        self.taps_across = ir.unroll if config["unroll"] == "columns" else ir.serial
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial

    def function(self) -> Any:
        workload = self.workload
        bands = ceil_div(workload.out_height, self.rows)
        with main_function(workload) as (builder, arguments):
            self.x, self.w, *self.added, self.y = flat(workload, arguments)
            taps = self.down.count * self.across.count
            self.taps = ir.sblock_alloc_buffer((self.blocks * taps * self.width,), "float32")
            self._order_weights()
            with self.loop(0, workload.B * bands) as task:
                batch, band = ir.Bind(task // bands), ir.Bind(task % bands)
                with ir.serial(0, self.rows) as row:
                    i = ir.Bind(band * self.rows + row)
                    with ir.If(i < workload.out_height), ir.Then():
                        self._row(batch, i)
        return builder.get()

    def _order_weights(self) -> None:
        """Store ``taps[block, ky, kx, c]`` from ``w[channel, 0, ky, kx]``.

        The taps of a block of channels are side by side, so that the data that is read and written
        at a time stays in the first cache.
        """
        height, width = self.workload.kernel
        with ir.serial(0, self.blocks) as block, ir.serial(0, self.width) as c:
            channel = ir.Bind(self._first_of(block) + c)
            with ir.serial(0, self.down.count) as ky, ir.serial(0, self.across.count) as kx:
                tap = (ky + self.down.first) * width + kx + self.across.first
                if self.workload.is_flipped:
                    tap = height * width - 1 - tap
                weight = self.w[channel * (height * width) + tap].astype("float32")
                ir.buffer_store(self.taps, weight, [self._tap(block, ky, kx) + c])

    def _first_of(self, block: Any) -> Any:
        """Return the first channel of a block.

        If the last block would not be whole, it overlaps the block before it.
        """
        return tirx.min(block * self.width, self.workload.C - self.width)

    def _tap(self, block: Any, ky: Any, kx: Any) -> Any:
        return ((block * self.down.count + ky) * self.across.count + kx) * self.width

    def _row(self, batch: Any, i: Any) -> None:
        """Compute a row of outputs in whole patches. The last patches overlap those before them."""
        width = self.workload.out_width
        patches = ceil_div(width, self.columns)
        outer, inner = (patches, self.blocks) if self.channels_inside else (self.blocks, patches)
        with ir.serial(0, outer) as one, ir.serial(0, inner) as other:
            patch, block = (one, other) if self.channels_inside else (other, one)
            self._patch(
                batch, i, ir.Bind(tirx.min(patch * self.columns, width - self.columns)), block
            )

    def _patch(self, batch: Any, i: Any, j: Any, block: Any) -> None:
        W, C, s = self.workload.W, self.workload.C, self.workload.stride
        c = ir.Bind(self._first_of(block))
        with opaque_block("patch"):
            sums = Sums(self.columns * self.vectors, self.lanes)
            sums.zero()
            left = ir.Bind(j * s - self.across.before)
            reach = (self.columns - 1) * s + self.across.span
            with ir.If(tirx.all(left >= 0, left + reach <= W)):
                with ir.Then():
                    self._sum(sums, batch, i, left, block, c, inside=True)
                with ir.Else():
                    self._sum(sums, batch, i, left, block, c, inside=False)
            out = (batch * self.workload.out_height + i) * self.workload.out_width + j
            here = ir.Bind(out * C + c)
            with ir.vectorized(0, self.lanes) as lane:
                for column, vector in self._places():
                    total = sums.load(self._sum_of(column, vector), lane)
                    at = here + column * C + vector * self.lanes + lane
                    channel = c + vector * self.lanes + lane
                    value = apply_epilogue(self.workload, total, self.added, channel, [at])
                    ir.buffer_store(self.y, value, [at])

    def _sum(
        self, sums: Sums, batch: Any, i: Any, left: Any, block: Any, c: Any, inside: bool
    ) -> None:
        """Add all taps of a patch whose first column of input is ``left``.

        ``inside`` says that none of its input columns is padding.
        """
        workload = self.workload
        H, W, C, s, d = workload.H, workload.W, workload.C, workload.stride, workload.dilation
        with ir.serial(0, self.down.count) as ky:
            row = ir.Bind(i * s + ky * d - self.down.before)
            with ir.If(tirx.all(row >= 0, row < H)), ir.Then():
                line = ir.Bind((batch * H + row) * W)
                with self.taps_across(0, self.across.count) as kx:
                    tap = ir.Bind(self._tap(block, ky, kx))
                    for column in range(self.columns):
                        at = left + kx * d + column * s
                        if inside:
                            self._add(sums, column, (line + at) * C + c, tap)
                        else:
                            with ir.If(tirx.all(at >= 0, at < W)), ir.Then():
                                self._add(sums, column, (line + at) * C + c, tap)

    def _add(self, sums: Sums, column: int, source: Any, tap: Any) -> None:
        """Add one tap of one column: a multiply-add for each vector of channels."""
        start = ir.Bind(source)
        with ir.vectorized(0, self.lanes) as lane:
            for vector in range(self.vectors):
                ahead = vector * self.lanes + lane
                value = self.x[start + ahead].astype("float32") * self.taps[tap + ahead]
                sums.add(self._sum_of(column, vector), lane, value)

    def _places(self) -> list[tuple[int, int]]:
        return [(column, v) for column in range(self.columns) for v in range(self.vectors)]

    def _sum_of(self, column: int, vector: int) -> int:
        return column * self.vectors + vector
