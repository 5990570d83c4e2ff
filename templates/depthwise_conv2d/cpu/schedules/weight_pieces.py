"""Program of the weight's gradient on a CPU, written in TIR."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cpu.pieces import axes, channels_are_last
from templates.depthwise_conv2d.cpu.schedules.staging import ZERO, Gradients, Staging
from templates.depthwise_conv2d.cpu.weight_pieces import blocks, piece, pieces
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.conversions import narrowed, widened
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat
from templates.kernels.registers import Sums
from templates.template import PARALLEL

MAX_CHUNK = 512  # the most products that are added up in one sum of float32
NEAR = 32  # pieces whose sums are added up before they are added to the total
MAX_GROUPS = 8  # the most groups of tap columns that each have separate code


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """Builder of one function: a task for each part and vector of channels, then the totals."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.piece = piece(workload, config)
        self.pieces = pieces(workload, config)
        self.down, self.across = axes(workload)
        self.taps = self.down.taps * self.across.taps
        self.sums = self.taps + workload.bias
        self.last = channels_are_last(workload)
        self.lanes: int = config["lanes"]
        self.channels = self.lanes if self.last else 1
        self.blocks, self.parts = blocks(workload, config), config["parts"]
        self.tap_rows: int = config["tap_rows"]
        self.tap_columns: int = config["tap_columns"]
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial

    def function(self) -> Any:
        workload = self.workload
        with main_function(workload) as (builder, arguments):
            self.x, self.g, *self.z, self.y = flat(workload, arguments)
            size = self.parts * workload.out_channels * self.sums
            self.partial = ir.sblock_alloc_buffer((size,), "float32")
            with self.loop(0, self.blocks * self.parts) as task:
                self._task(ir.Bind(task // self.parts), ir.Bind(task % self.parts))
            with self.loop(0, workload.out_channels) as channel:
                self._add_parts(channel)
        return builder.get()

    def _task(self, block: Any, part: Any) -> None:
        c = ir.Bind(tirx.min(block * self.channels, self.workload.out_channels - self.channels))
        with opaque_block("task"):
            here, beyond = self.piece, 0 if self.last else self.lanes
            phases = self.down.phases * self.across.phases
            self.inputs = Staging(phases * here.window, self.channels, beyond)
            given = (self.g, *self.z)
            places = here.rows * here.pitch
            self.gradients = Gradients(self.workload, given, places, self.lanes, beyond)
            self.near, self.total = (
                ir.sblock_alloc_buffer((self.sums * self.lanes,), "float32") for _ in range(2)
            )
            self._clear(self.total)
            first = ir.Bind(part * self.pieces // self.parts)
            count = ir.Bind((part + 1) * self.pieces // self.parts - first)
            with ir.serial(0, tirx.floordiv(count + NEAR - 1, NEAR)) as some:
                self._clear(self.near)
                with ir.serial(0, tirx.min(NEAR, count - some * NEAR)) as each:
                    self._add_piece(c, ir.Bind(first + some * NEAR + each))
                with ir.serial(0, self.sums) as n, ir.vectorized(0, self.lanes) as lane:
                    at = n * self.lanes + lane
                    ir.buffer_store(self.total, self.total[at] + self.near[at], [at])
            self._store_part(part, c)

    def _clear(self, buffer: Any) -> None:
        with ir.serial(0, self.sums) as n, ir.vectorized(0, self.lanes) as lane:
            ir.buffer_store(buffer, ZERO, [n * self.lanes + lane])

    def _add_piece(self, c: Any, number: Any) -> None:
        here = self.piece
        b, band = ir.Bind(number // here.strips // here.bands), number // here.strips % here.bands
        i, j = ir.Bind(band * here.rows), ir.Bind(number % here.strips * here.columns)
        width = ir.Bind(tirx.min(self.workload.out_width, j + here.columns))
        places = (here.rows, here.pitch)  # zeros fill the columns that only the input has
        self.gradients.stage(0, places, (i, j), width, b, lambda lane: c + lane)
        self._stage_inputs(b, c, i, j)
        if self.workload.bias:
            self._add_bias()
        rows, rest = divmod(self.down.taps, self.tap_rows)
        with ir.serial(0, rows) as group:
            self._add_rows(ir.Bind(group * self.tap_rows), self.tap_rows)
        if rest:
            self._add_rows(rows * self.tap_rows, rest)

    def _stage_inputs(self, b: Any, c: Any, i: Any, j: Any) -> None:
        """Stage each phase of the input that the piece's taps meet."""
        workload, here, s = self.workload, self.piece, self.workload.stride
        H, W, C = workload.H, workload.W, workload.C

        def read(row: Any, column: Any, lane: Any) -> Any:
            channel = (c + lane) // workload.multiplier
            if self.last:
                at = ((b * H + row) * W + column) * C + channel
            else:
                at = ((b * C + channel) * H + row) * W + column
            return widened(self.x[at], workload.dtype)

        with ir.serial(0, self.down.phases) as py, ir.serial(0, self.across.phases) as px:
            first = (
                ir.Bind(i * s + self.down.remainder(py) - self.down.before),
                ir.Bind(j * s + self.across.remainder(px) - self.across.before),
            )
            start = ir.Bind((py * self.across.phases + px) * here.window)
            places = (here.rows + self.down.shift, here.pitch)
            self.inputs.fill(start, places, first, s, (H, W), read)

    def _add_bias(self) -> None:
        def add(sums: Sums, at: Any, lane: Any) -> None:
            sums.add(0, lane, self.gradients.buffer[at + lane])

        self._over_places(1, add, lambda _: self.taps)

    def _add_rows(self, ky: Any, rows: int) -> None:
        """Add all taps of ``rows`` rows. A last, smaller group of tap columns has separate code."""
        width, taps = self.tap_columns, self.across.taps
        lines = [
            ir.Bind(
                (ky + r) % self.down.phases * (self.across.phases * self.piece.window)
                + self.down.ahead(ky + r) * self.piece.pitch
            )
            for r in range(rows)
        ]
        whole_groups, rest = divmod(taps, width)
        if whole_groups <= MAX_GROUPS:
            for group in range(whole_groups):
                self._add_taps(ky, lines, group * width, width)
        else:
            with ir.serial(0, whole_groups) as group:
                self._add_taps(ky, lines, ir.Bind(group * width), width)
        if rest:
            self._add_taps(ky, lines, whole_groups * width, rest)

    def _add_taps(self, ky: Any, lines: list[Any], kx: Any, columns: int) -> None:
        places = [
            ir.Bind((line + self._across(kx + n)) * self.channels)
            for line in lines
            for n in range(columns)
        ]

        def add(sums: Sums, at: Any, lane: Any) -> None:
            gradient = self.gradients.buffer[at + lane]
            for number, place in enumerate(places):
                sums.add(number, lane, self.inputs.buffer[place + at + lane] * gradient)

        def tap(number: int) -> Any:
            return (ky + number // columns) * self.across.taps + kx + number % columns

        self._over_places(len(places), add, tap)

    def _across(self, k: Any) -> Any:
        """Return the place of the input that tap column k meets at the piece's first output."""
        return k % self.across.phases * self.piece.window + self.across.ahead(k)

    def _over_places(self, count: int, add: Any, number_of: Any) -> None:
        """Call ``add(sums, at, lane)`` for the vectors of the piece, in chunks.

        The sums of each chunk are added to those that ``number_of`` names.
        """
        here, lanes = self.piece, self.lanes
        if self.last:
            each = max(1, MAX_CHUNK // here.columns)
            chunks, lines, steps = ceil_div(here.rows, each), each, here.columns
        else:
            chunks, lines = ceil_div(here.flat, MAX_CHUNK * lanes), 1
            steps = min(MAX_CHUNK, ceil_div(here.flat, lanes))
        with ir.serial(0, chunks) as chunk, opaque_block("sums"):
            sums = Sums(count, lanes)
            sums.zero()
            if self.last:
                rows = tirx.min(lines, here.rows - chunk * lines)
                with ir.serial(0, rows) as r:
                    line = ir.Bind((chunk * lines + r) * here.pitch)
                    with ir.serial(0, steps) as j, ir.vectorized(0, lanes) as lane:
                        add(sums, (line + j) * lanes, lane)
            else:
                left = ceil_div(here.flat, lanes) - chunk * steps
                with ir.serial(0, tirx.min(steps, left)) as j, ir.vectorized(0, lanes) as lane:
                    add(sums, (chunk * steps + j) * lanes, lane)
            with ir.vectorized(0, lanes) as lane:
                for number in range(count):
                    at = number_of(number) * lanes + lane
                    value = self.near[at] + sums.load(number, lane)
                    ir.buffer_store(self.near, value, [at])

    def _store_part(self, part: Any, c: Any) -> None:
        """Store the part's sums, with those of a channel side by side."""
        with ir.serial(0, self.channels) as channel, ir.serial(0, self.sums) as n:
            first = n * self.lanes
            if self.last:
                value = self.total[first + channel]
            else:
                value = reduce(
                    lambda a, b: a + b, (self.total[first + lane] for lane in range(self.lanes))
                )
            to = (part * self.workload.out_channels + c + channel) * self.sums + n
            ir.buffer_store(self.partial, value, [to])

    def _add_parts(self, channel: Any) -> None:
        """Store a channel's sums in the weight's order; taps that meet no input are zero."""
        workload, (height, width) = self.workload, self.workload.kernel
        used, F = workload.used_taps, workload.out_channels

        def total(n: Any) -> Any:
            values = (
                self.partial[(part * F + channel) * self.sums + n] for part in range(self.parts)
            )
            return reduce(lambda a, b: a + b, values)

        with ir.serial(0, height) as ky, ir.serial(0, width) as kx:
            row, column = ky - used[0].first, kx - used[1].first
            inside = tirx.all(
                row >= 0, row < self.down.taps, column >= 0, column < self.across.taps
            )
            value = tirx.if_then_else(inside, total(row * self.across.taps + column), ZERO)
            to = workload.tap(ky, kx)
            at = channel * (height * width) + to[0] * width + to[1]
            ir.buffer_store(self.y, narrowed(value, workload.dtype), [at])
        if workload.bias:
            value = narrowed(total(self.taps), workload.dtype)
            ir.buffer_store(self.y, value, [F * (height * width) + channel])
