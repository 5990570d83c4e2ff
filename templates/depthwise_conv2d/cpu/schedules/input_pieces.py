"""Program of the input's gradient on a CPU, written in TIR."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cpu.input_pieces import first_outputs, piece
from templates.depthwise_conv2d.cpu.pieces import Axis, axes, channels_are_last
from templates.depthwise_conv2d.cpu.schedules.staging import Gradients
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.conversions import narrowed, widened
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat
from templates.kernels.registers import Sums
from templates.template import PARALLEL


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


@dataclass(frozen=True)
class _Phase:
    """The taps of an axis that meet a phase: ``count`` taps from ``first`` on, ``step`` apart.

    The first of these taps is ``ahead`` outputs ahead, and each further tap ``ahead_step`` more.
    """

    first: int
    count: int
    step: int
    ahead: int
    ahead_step: int


class _Program:
    """Builder of one function, which puts the weights in the order of use, then runs the tasks."""

    def __init__(self, workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.piece = piece(workload, config)
        self.down, self.across = axes(workload)
        self.taps = self.down.taps * self.across.taps
        self.last = channels_are_last(workload)
        self.lanes: int = config["lanes"]
        self.vectors: int = config["vectors"]
        self.channels = self.lanes if self.last else 1
        self.blocks = ceil_div(workload.C, self.channels)
        self.taps_across = ir.unroll if config["unroll"] == "columns" else ir.serial
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial

    def function(self) -> Any:
        workload, here = self.workload, self.piece
        several, each = workload.multiplier, self.blocks * here.bands * here.strips
        with main_function(workload) as (builder, arguments):
            self.g, self.w, *self.z, self.y = flat(workload, arguments)
            ordered = self.blocks * several * self.taps * self.channels
            self.weights = ir.sblock_alloc_buffer((ordered,), "float32")
            with self.loop(0, self.blocks) as block:
                self._order_weights(block)
            with self.loop(0, workload.B * each) as task:
                b, block = ir.Bind(task // each), ir.Bind(task // here.strips // here.bands)
                band = ir.Bind(task // here.strips % here.bands)
                strip = ir.Bind(task % here.strips)
                self._task(b, ir.Bind(block % self.blocks), band, strip)
        return builder.get()

    def _first_of(self, block: Any) -> Any:
        """Return the first channel of a block.

        If the last block would not be whole, it overlaps the block before it.
        """
        return tirx.min(block * self.channels, self.workload.C - self.channels)

    def _order_weights(self, block: Any) -> None:
        """Store ``weights[block, m, ky, kx, c]`` from ``w[channel, 0, ky, kx]``."""
        workload, (height, width) = self.workload, self.workload.kernel
        several, used = workload.multiplier, workload.used_taps
        with ir.serial(0, self.channels) as c, ir.serial(0, several) as m:
            channel = ir.Bind((self._first_of(block) + c) * several + m)
            with ir.serial(0, self.down.taps) as ky, ir.serial(0, self.across.taps) as kx:
                row, column = workload.tap(ky + used[0].first, kx + used[1].first)
                weight = self.w[channel * (height * width) + row * width + column]
                at = self._weight(block, m, ky, kx) + c
                ir.buffer_store(self.weights, widened(weight, workload.dtype), [at])

    def _weight(self, block: Any, m: Any, ky: Any, kx: Any) -> Any:
        """Return the index in the ordered weights at which a tap's channels begin."""
        tap = (block * self.workload.multiplier + m) * self.taps + ky * self.across.taps + kx
        return tap * self.channels

    def _task(self, b: Any, block: Any, band: Any, strip: Any) -> None:
        workload, here, s = self.workload, self.piece, self.workload.stride
        beyond = 0 if self.last else self.lanes * self.vectors  # places that a last vector reads
        phases = [
            _of_phase(axis, extent)
            for axis, extent in zip((self.down, self.across), (workload.H, workload.W), strict=True)
        ]
        with opaque_block("task"):
            size, given = workload.multiplier * here.window, (self.g, *self.z)
            gradients = Gradients(workload, given, size, self.lanes, beyond)
            self.staged = gradients.buffer
            if not self.last:
                # The results of all phases of columns, before they are interleaved.
                size = len(phases[1]) * here.window + beyond
                self.results = ir.sblock_alloc_buffer((size,), "float32")
                self.line = ir.sblock_alloc_buffer(((here.columns + 1) * s,), "float32")
            c = ir.Bind(self._first_of(block))
            row, column = (
                ir.Bind(first + number * extent)
                for first, number, extent in zip(
                    first_outputs(workload), (band, strip), (here.rows, here.columns), strict=True
                )
            )
            self._stage_gradients(gradients, b, c, row, column)
            for py, rows in phases[0]:
                for number, (px, columns) in enumerate(phases[1]):
                    place = (b, c, row * s + py - self.down.before)
                    self._phase(block, number, rows, columns, *place, column * s + px)
                if not self.last:
                    remainders = [px for px, _ in phases[1]]
                    self._store_interleaved(
                        b, c, row * s + py - self.down.before, column, remainders
                    )

    def _stage_gradients(self, gradients: Gradients, b: Any, c: Any, row: Any, column: Any) -> None:
        """Stage the gradients of the sums that the piece meets."""
        here, several = self.piece, self.workload.multiplier
        places = (here.rows + self.down.shift, here.pitch)
        first = (row - self.down.shift, column - self.across.shift)
        with ir.serial(0, several) as m:
            gradients.stage(
                m * here.window,
                places,
                first,
                self.workload.out_width,
                b,
                lambda lane: (c + lane) * several + m,
            )

    def _phase(
        self, block: Any, number: int, rows: _Phase, columns: _Phase, b: Any, c: Any, i: Any, j: Any
    ) -> None:
        """Sum all elements of a phase.

        The first element is in row ``i`` of the plane, and in column ``j`` minus ``across.before``.
        """
        here, width = self.piece, self.vectors
        taps = (block, rows, columns)
        if not self.last:
            with ir.serial(0, ceil_div(here.flat, self.lanes * width)) as tile:
                start = ir.Bind(tile * (self.lanes * width))
                self._tile(taps, start, partial(self._keep_sums, number * here.window + start))
            return
        tiles = ceil_div(here.columns, width)
        with ir.serial(0, here.rows) as r:
            row = ir.Bind(i + r * self.workload.stride)
            inside = tirx.all(row >= 0, row < self.workload.H)
            with ir.If(inside), ir.Then(), ir.serial(0, tiles) as tile:
                ahead = ir.Bind(tirx.min(tile * width, here.columns - width))
                start = ir.Bind((r * here.pitch + ahead) * self.lanes)
                self._tile(taps, start, partial(self._store, b, c, row, j, ahead))

    def _tile(
        self, taps: tuple[Any, _Phase, _Phase], start: Any, store: Callable[[Sums], None]
    ) -> None:
        """Sum over the taps of a phase for vectors from a staged place on, and store the sums."""
        with opaque_block("tile"):
            sums = Sums(self.vectors, self.lanes)
            sums.zero()
            if taps[1].count and taps[2].count:
                self._add_taps(sums, start, *taps)
            store(sums)

    def _add_taps(self, sums: Sums, start: Any, block: Any, rows: _Phase, columns: _Phase) -> None:
        here = self.piece
        with (
            ir.serial(0, self.workload.multiplier) as m,
            ir.serial(0, rows.count) as ny,
        ):
            ky = rows.first + ny * rows.step
            ahead = self.down.shift - rows.ahead - ny * rows.ahead_step
            line = ir.Bind((m * here.window + ahead * here.pitch) * self.channels + start)
            tap = ir.Bind(self._weight(block, m, ky, columns.first))
            with self.taps_across(0, columns.count) as nx:
                ahead = self.across.shift - columns.ahead - nx * columns.ahead_step
                at = line + ahead * self.channels
                place = tap + nx * (columns.step * self.channels)
                with ir.vectorized(0, self.lanes) as lane:
                    weight = self.weights[place + lane if self.last else place]
                    for v in range(self.vectors):
                        value = self.staged[at + v * self.lanes + lane]
                        sums.add(v, lane, value * weight)

    def _store(self, b: Any, c: Any, i: Any, j: Any, ahead: Any, sums: Sums) -> None:
        """Store neighbouring channels of those of a row's elements that are in the plane."""
        workload, s = self.workload, self.workload.stride
        line = ir.Bind((b * workload.H + i) * workload.W)
        for v in range(self.vectors):
            column = ir.Bind(j - self.across.before + (ahead + v) * s)
            with ir.If(tirx.all(column >= 0, column < workload.W)), ir.Then():
                at = ir.Bind((line + column) * workload.C + c)
                with ir.vectorized(0, self.lanes) as lane:
                    value = narrowed(sums.load(v, lane), workload.dtype)
                    ir.buffer_store(self.y, value, [at + lane])

    def _keep_sums(self, start: Any, sums: Sums) -> None:
        """Store the sums of a phase in ``results``, in the phase's order, from ``start`` on."""
        with ir.vectorized(0, self.lanes) as lane:
            for v in range(self.vectors):
                at = start + v * self.lanes + lane
                ir.buffer_store(self.results, sums.load(v, lane), [at])

    def _store_interleaved(
        self, b: Any, c: Any, i: Any, column: Any, remainders: list[int]
    ) -> None:
        """Store the rows of a phase of rows, with the phases of columns interleaved."""
        workload, here, s = self.workload, self.piece, self.workload.stride
        first = ir.Bind(column * s - self.across.before)
        begin = ir.Bind(tirx.max(0, -first))
        end = ir.Bind(tirx.min(here.columns * s, workload.W - first))
        with ir.serial(0, here.rows) as r:
            row = ir.Bind(i + r * s)
            with ir.If(tirx.all(row >= 0, row < workload.H)), ir.Then():
                to = ir.Bind(((b * workload.C + c) * workload.H + row) * workload.W + first)
                if s == 1:
                    source, start = self.results, ir.Bind(r * here.pitch)
                else:
                    source, start = self.line, 0
                    with ir.serial(0, here.columns) as n:
                        for number, px in enumerate(remainders):
                            value = self.results[number * here.window + r * here.pitch + n]
                            ir.buffer_store(self.line, value, [n * s + px])
                with ir.serial(0, end - begin) as n:
                    value = narrowed(source[start + begin + n], workload.dtype)
                    ir.buffer_store(self.y, value, [to + begin + n])


def _of_phase(axis: Axis, extent: int) -> list[tuple[int, _Phase]]:
    """Return each remainder of an axis's places modulo the stride, with the taps that share it."""
    s = axis.stride
    step = s // math.gcd(s, axis.step)
    found = {axis.remainder(k): k for k in range(axis.phases)}
    phases = []
    for remainder in sorted({(i + axis.before) % s for i in range(min(extent, s))}):
        first = found.get(remainder)
        count = 0 if first is None else ceil_div(axis.taps - first, step)
        ahead = axis.ahead(first or 0)
        phase = _Phase(first or 0, count, step, ahead, step * axis.step // s)
        phases.append((remainder, phase))
    return phases
