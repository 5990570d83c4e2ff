"""Program of ``CpuGated``, written in TIR."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.conv1d.cpu.gated import MAX_CHUNK, tasks
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat
from templates.kernels.registers import Sums
from templates.template import PARALLEL


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """Builder of one function. It puts the taps in the order of use, then runs a task for each
    band."""

    def __init__(self, workload: Conv1dWorkload, config: dict[str, Any]) -> None:
        self.workload, self.config = workload, config
        self.lanes: int = config["lanes"]
        self.vectors: int = config["vectors"]
        self.width = self.lanes * self.vectors
        self.blocks = ceil_div(workload.C, self.width)
        self.rows: int = config["rows"]
        self.rows_per_task: int = config["rows_per_task"]
        self.bands = ceil_div(workload.M, self.rows_per_task)
        self.chunk = min(workload.N, MAX_CHUNK)
        self.over_taps = ir.unroll if config["unroll"] == "taps" else ir.serial
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial

    def function(self) -> Any:
        workload = self.workload
        with main_function(workload) as (builder, arguments):
            self.x, self.w, *self.added, self.y = flat(workload, arguments)
            size = self.blocks * workload.N * self.width
            self.taps = ir.sblock_alloc_buffer((size,), "float32")
            self._order_taps()
            with self.loop(0, tasks(workload, self.config)) as task:
                self._task(ir.Bind(task // self.bands), ir.Bind(task % self.bands))
        return builder.get()

    def _order_taps(self) -> None:
        """Store ``taps[block, t, c]`` from ``w[channel, 0, t]``, in the order in which they meet
        samples."""
        N = self.workload.N
        with ir.serial(0, self.blocks) as block, ir.serial(0, self.width) as c:
            channel = ir.Bind(self._first_of(block) + c)
            with ir.serial(0, N) as t:
                tap = N - 1 - t if self.workload.kind == "convolve" else t
                weight = widened(self.w[channel * N + tap], self.workload.dtype)
                ir.buffer_store(self.taps, weight, [(block * N + t) * self.width + c])

    def _first_of(self, block: Any) -> Any:
        """Return the first channel of a block.

        If the last block would not be whole, it overlaps the block before it.
        """
        return tirx.min(block * self.width, self.workload.C - self.width)

    def _task(self, b: Any, band: Any) -> None:
        """Compute the rows of a band in whole patches. The last ones overlap those before them."""
        start = ir.Bind(band * self.rows_per_task)
        end = ir.Bind(tirx.min(start + self.rows_per_task, self.workload.M))
        patches = ir.Bind(tirx.floordiv(end - start + self.rows - 1, self.rows))
        by_channels = self.config["inner"] == "channels"
        outer, inner = (patches, self.blocks) if by_channels else (self.blocks, patches)
        with ir.serial(0, outer) as one, ir.serial(0, inner) as other:
            patch, block = (one, other) if by_channels else (other, one)
            last = tirx.max(0, end - self.rows)
            self._patch(b, ir.Bind(tirx.min(start + patch * self.rows, last)), block)

    def _patch(self, b: Any, i: Any, block: Any) -> None:
        workload = self.workload
        c = ir.Bind(self._first_of(block))
        with opaque_block("patch"):
            sums = Sums(self.rows * self.vectors, self.lanes)
            sums.zero()
            first = ir.Bind(i - workload.left)
            reach = self.rows - 1 + workload.span
            with ir.If(tirx.all(first >= 0, first + reach <= workload.M)):
                with ir.Then():
                    self._sum(sums, b, first, block, c, inside=True)
                with ir.Else():
                    self._sum(sums, b, first, block, c, inside=False)
            here = ir.Bind(b * workload.M + i)
            with ir.vectorized(0, self.lanes) as lane:
                for row in range(self.rows):
                    for vector in range(self.vectors):
                        channel = c + vector * self.lanes + lane
                        at = (here + row) * workload.C + channel
                        gate = self._element(here + row, workload.C + channel)
                        total = sums.load(self._sum_of(row, vector), lane)
                        value = apply_epilogue(
                            workload, total, self.added, channel, [at], gate=gate
                        )
                        ir.buffer_store(self.y, value, [at])

    def _element(self, row: Any, channel: Any) -> Any:
        """Return an element of the input in float32; ``row`` counts the rows of all signals."""
        at = row * (3 * self.workload.C) + channel
        return widened(self.x[at], self.workload.dtype)

    def _sum(self, sums: Sums, b: Any, first: Any, block: Any, c: Any, inside: bool) -> None:
        """Add all taps of a patch whose first row of input is ``first``.

        ``inside`` says that none of its input rows is padding. More taps than ``MAX_CHUNK`` are
        summed in several chunks.
        """
        chunks = ceil_div(self.workload.N, self.chunk)
        if chunks == 1:
            self._add_taps(sums, b, first, block, c, inside, 0, self.workload.N)
            return
        with ir.serial(0, chunks) as chunk, opaque_block("chunk"):
            part = Sums(self.rows * self.vectors, self.lanes)
            part.zero()
            start = ir.Bind(chunk * self.chunk)
            some = ir.Bind(tirx.min(self.chunk, self.workload.N - start))
            self._add_taps(part, b, first, block, c, inside, start, some)
            with ir.vectorized(0, self.lanes) as lane:
                for number in range(self.rows * self.vectors):
                    sums.add(number, lane, part.load(number, lane))

    def _add_taps(
        self,
        sums: Sums,
        b: Any,
        first: Any,
        block: Any,
        c: Any,
        inside: bool,
        start: Any,
        some: Any,
    ) -> None:
        workload = self.workload
        with self.over_taps(0, some) as number:
            t = ir.Bind(start + number)
            tap = ir.Bind((block * workload.N + t) * self.width)
            for row in range(self.rows):
                i = ir.Bind(first + row + t * workload.dilation)
                if inside:
                    self._add(sums, row, b * workload.M + i, c, tap)
                else:
                    with ir.If(tirx.all(i >= 0, i < workload.M)), ir.Then():
                        self._add(sums, row, b * workload.M + i, c, tap)

    def _add(self, sums: Sums, row: int, source: Any, c: Any, tap: Any) -> None:
        """Add one tap of one row: a multiply-add for each vector of channels."""
        with ir.vectorized(0, self.lanes) as lane:
            for vector in range(self.vectors):
                ahead = vector * self.lanes + lane
                gate = self._element(source, c + ahead)
                signal = self._element(source, self.workload.gate_channels + c + ahead)
                sums.add(self._sum_of(row, vector), lane, gate * signal * self.taps[tap + ahead])

    def _sum_of(self, row: int, vector: int) -> int:
        return row * self.vectors + vector
