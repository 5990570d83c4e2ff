"""The programs of ``CpuFft``, written in TIR: butterflies of whole vector registers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.conv1d.cpu.fft import factors, filter_length, outputs_of_block
from templates.conv1d.cpu.schedules.complex_rows import ComplexRows
from templates.conv1d.cpu.schedules.radix import Complex, dft, multiply
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat

PARTS = (0, 1)  # real and imaginary

Pass = Callable[[int, Any, int, int], None]
"""A pass over rows, a function of (level, first row, number of rows, step). The inputs of a
butterfly of this level are ``step`` rows apart."""


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """Builder of the program, one function.

    It fills a table of the roots of unity. Then, for each output channel in turn, it transforms the
    weights (in correlation form, at negative indices) and runs a task for each ``pairs`` pairs of
    blocks.

    A task's forward transform leaves the frequencies in the order of decimation in frequency. The
    weights' spectrum has the same order, and the inverse transform undoes it. The passes go depth
    first, so that all but the first and last find their rows in the nearest cache.
    """

    def __init__(self, workload: Conv1dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.lanes, self.points, self.pairs = config["lanes"], config["points"], config["pairs"]
        self.factors = factors(config)
        self.new = outputs_of_block(workload, config)
        self.swapped = filter_length(workload) < workload.N
        self.M, self.N, self.left = workload.M, workload.N, workload.left
        if self.swapped:
            # Let u be the taps in the order in which they meet the samples. Then the sum over t of
            # x[i + t - left] u[t] equals the sum over s of
            # u[N-1 - (i + s - (M - N + left))] x[M-1 - s].
            self.M, self.N, self.left = self.N, self.M, self.M - self.N + self.left
        # samples that no output meets would contribute only rounding errors
        self.met = min(self.M, workload.length + self.N - 1 - self.left)
        self.backwards = self.swapped and workload.kind == "correlate"
        self.loop = ir.parallel if config["threading"] == "parallel" else ir.serial
        self.n = self.points // self.lanes
        # One more row after each leg of the first pass: legs a power of two apart would share one
        # cache set.
        self.rows = self.n + self.factors[0]

    def function(self) -> Any:
        workload = self.workload
        tasks = ceil_div(workload.length, 2 * self.pairs * self.new)
        with main_function(workload) as (builder, arguments):
            self.x, self.w, *self.added, self.y = flat(workload, arguments)
            if self.swapped:
                self.x, self.w = self.w, self.x
            self.roots = ir.sblock_alloc_buffer((2 * self.n,), "float32")
            self.spectrum = ir.sblock_alloc_buffer((4 * self.lanes * self.rows,), "float32")
            self._fill_roots()
            with ir.serial(0, workload.out_channels) as f:
                with self.loop(0, 2) as half:
                    self._transform_weights(f, half)
                with self.loop(0, workload.B * tasks) as task:
                    b = ir.Bind(task // tasks)
                    channel = b * workload.C + f // workload.multiplier
                    self.f = f
                    self.into = ir.Bind(channel * workload.M)
                    self.out = ir.Bind((b * workload.out_channels + f) * workload.length)
                    self._convolve(ir.Bind(task % tasks))
        return builder.get()

    def _fill_roots(self) -> None:
        """Fill ``roots`` with exp(-2 pi i k / n) for k < n. In float64, the first 2^b roots times
        root 2^b give the next 2^b."""
        exact = ir.sblock_alloc_buffer((2 * self.n,), "float64")
        ir.buffer_store(exact, tirx.const(1.0, "float64"), [0])
        ir.buffer_store(exact, tirx.const(0.0, "float64"), [1])
        known = 1
        while known < self.n:
            root = cmath.exp(-2j * math.pi * known / self.n)
            factor = tirx.const(root.real, "float64"), tirx.const(root.imag, "float64")
            with ir.serial(0, known) as k:
                values = multiply((exact[2 * k], exact[2 * k + 1]), factor)
                for part in PARTS:
                    ir.buffer_store(exact, values[part], [2 * (k + known) + part])
            known *= 2
        with ir.serial(0, 2 * self.n) as k:
            ir.buffer_store(self.roots, ir.Cast("float32", exact[k]), [k])

    def _transform_weights(self, f: Any, half: Any) -> None:
        """Compute the weights' spectra of phases -lanes..-1 (half 0) or 0..lanes-1 (half 1), scaled
        by 1/n. Phase d of row m is tap -(m * lanes + d) mod points, because tap t is at index
        -t."""
        N, lanes, points = self.N, self.lanes, self.points
        turned = self.swapped or self.workload.kind == "convolve"
        with opaque_block("weights"):
            padded = ir.sblock_alloc_buffer((points,), "float32")
            with ir.serial(0, self.n) as row, ir.vectorized(0, lanes) as lane:
                ir.buffer_store(padded, tirx.const(0.0, "float32"), [row * lanes + lane])
            scale = tirx.const(1.0 / self.n, "float32")
            with ir.serial(0, N) as t:
                tap = self.w[f * N + (N - 1 - t if turned else t)]
                place = ir.floormod(points + lanes - t - half * lanes, points)
                ir.buffer_store(padded, tap.astype("float32") * scale, [place])

            def forward(level: int, base: Any, size: int, step: int) -> None:
                row = 4 * lanes
                rows = ComplexRows(
                    self.spectrum, base * row + half * lanes, row, step * row, 2 * lanes
                )
                source = self._block(padded, 0, None) if level == 0 else rows
                self._forward(level, size, source, rows)

            self._walk(forward)

    def _convolve(self, task: Any) -> None:
        with opaque_block("task"):
            row, one = 2 * self.lanes, 2 * self.lanes * self.rows
            work = ir.sblock_alloc_buffer((self.pairs * one,), "float32")
            edge = ir.sblock_alloc_buffer((2 * self.points,), "float32")

            def forward(level: int, base: Any, size: int, step: int) -> None:
                with ir.serial(0, self.pairs) as pair:
                    rows = ComplexRows(work, pair * one + base * row, row, step * row, self.lanes)
                    if level == 0:
                        self._first(task * self.pairs + pair, rows, edge)
                    else:
                        self._forward(level, size, rows, rows)

            def multiplied(level: int, base: Any, size: int, step: int) -> None:
                with ir.serial(0, size) as k:
                    self._multiply(work, one, ir.Bind(base + k * step))

            def inverse(level: int, base: Any, size: int, step: int) -> None:
                with ir.serial(0, self.pairs) as pair:
                    rows = ComplexRows(work, pair * one + base * row, row, step * row, self.lanes)
                    if level == 0:
                        self._last(task * self.pairs + pair, rows, edge)
                    else:
                        self._inverse(level, size, rows, rows)

            self._walk(forward, multiplied, inverse)

    def _walk(
        self,
        forward: Pass,
        middle: Pass | None = None,
        inverse: Pass | None = None,
        level: int = 0,
        base: Any = 0,
        size: int = 0,
    ) -> None:
        """Emit the passes of all factors, depth first: ``forward``, ``middle`` on the rows that the
        last factor's pass has finished, and ``inverse``."""
        size = size or self.n
        rest = size // self.factors[level]
        step = rest + 1 if level == 0 else rest
        forward(level, base, size, step)
        if level + 1 < len(self.factors):
            with ir.serial(0, self.factors[level]) as leg:
                start = ir.Bind(base + leg * step)
                self._walk(forward, middle, inverse, level + 1, start, rest)
        elif middle:
            middle(level, base, size, step)
        if inverse:
            inverse(level, base, size, step)

    def _forward(self, level: int, size: int, source: ComplexRows, target: ComplexRows) -> None:
        """Emit a pass of decimation in frequency: butterflies, then twiddles."""
        radix = self.factors[level]
        with ir.serial(0, size // radix) as j:
            here, there = source.move(j), target.move(j)
            with ir.vectorized(0, self.lanes) as lane:
                values = dft([here.load(leg, lane) for leg in range(radix)], -1)
                for leg, value in enumerate(values):
                    there.store(j, leg, lane, self._twiddled(value, j, leg, size, radix, False))

    def _inverse(self, level: int, size: int, source: ComplexRows, target: ComplexRows) -> None:
        """Emit the pass that undoes ``_forward``. Its results are scaled by the radix."""
        radix = self.factors[level]
        with ir.serial(0, size // radix) as j:
            here, there = source.move(j), target.move(j)
            with ir.vectorized(0, self.lanes) as lane:
                values = [here.load(leg, lane) for leg in range(radix)]
                values = [
                    self._twiddled(value, j, leg, size, radix, True)
                    for leg, value in enumerate(values)
                ]
                for leg, value in enumerate(dft(values, 1)):
                    there.store(j, leg, lane, value)

    def _twiddled(
        self, value: Complex, j: Any, leg: int, size: int, radix: int, conjugate: bool
    ) -> Complex:
        if leg == 0 or size == radix:
            return value
        place = ir.Bind(j * (2 * leg * (self.n // size)))
        root = ir.Bind(self.roots[place]), ir.Bind(self.roots[place + 1])
        return multiply(value, root, conjugate)

    def _multiply(self, work: Any, one: int, row: Any) -> None:
        """Multiply one frequency of every pair by the weights, in place: y[lane] is the sum over
        phases l of x[l] * weights[lane - l]."""
        lanes = self.lanes
        here, weights = ir.Bind(row * (2 * lanes)), ir.Bind(row * (4 * lanes) + lanes)
        places = [(pair, part) for pair in range(self.pairs) for part in PARTS]
        with opaque_block("multiply"):
            sums = ir.sblock_alloc_buffer((len(places) * lanes,), "float32", scope="local")
            with ir.vectorized(0, lanes) as lane:
                for place in range(len(places)):
                    ir.buffer_store(sums, tirx.const(0.0, "float32"), [place * lanes + lane])
            with ir.serial(0, lanes) as phase, ir.vectorized(0, lanes) as lane:
                wr, wi = (
                    ir.Bind(self.spectrum[weights - phase + lane + part * 2 * lanes])
                    for part in PARTS
                )
                for pair in range(self.pairs):
                    xr, xi = (
                        ir.Bind(work[here + phase + (pair * one + part * lanes)]) for part in PARTS
                    )
                    re, im = ((2 * pair + part) * lanes + lane for part in PARTS)
                    ir.buffer_store(sums, sums[re] + xr * wr - xi * wi, [re])
                    ir.buffer_store(sums, sums[im] + xr * wi + xi * wr, [im])
            with ir.vectorized(0, lanes) as lane:
                for place, (pair, part) in enumerate(places):
                    target = here + (pair * one + part * lanes) + lane
                    ir.buffer_store(work, sums[place * lanes + lane], [target])

    def _first(self, pair: Any, target: ComplexRows, edge: Any) -> None:
        """Emit the first pass, which reads straight from the input. It reads a guarded copy instead
        at the input's ends, or everywhere if the input is read backwards."""
        start = ir.Bind(pair * (2 * self.new) - self.left)
        if self.backwards:
            self._first_copied(start, target, edge)
            return
        with ir.If(ir.And(start >= 0, start <= self.met - self.new - self.points)):
            with ir.Then():
                self._forward(0, self.n, self._block(self.x, self.into + start, self.new), target)
            with ir.Else():
                self._first_copied(start, target, edge)

    def _first_copied(self, start: Any, target: ComplexRows, edge: Any) -> None:
        with ir.serial(0, 2 * self.points) as i:
            ir.buffer_store(edge, tirx.const(0.0, "float32"), [i])
        with ir.serial(0, 2) as block:
            first = ir.Bind(start + block * self.new)
            before = ir.Bind(_within(-first, self.points))
            with ir.serial(0, _within(self.met - first, self.points) - before) as i:
                p = first + before + i
                value = self.x[self.into + (self.M - 1 - p if self.backwards else p)]
                ir.buffer_store(edge, value.astype("float32"), [block * self.points + before + i])
        self._forward(0, self.n, self._block(edge, 0, self.points), target)

    def _last(self, pair: Any, source: ComplexRows, edge: Any) -> None:
        """Emit the last pass, which writes straight to the output. It writes a copy first at the
        output's end, or everywhere if there is an epilogue."""
        start = ir.Bind(pair * (2 * self.new))
        if self.workload.has_epilogue:
            self._last_copied(start, source, edge)
            return
        with ir.If(start <= self.workload.length - 2 * self.new):
            with ir.Then():
                target = self._block(
                    self.y, self.out + start, self.new, limit=self.new // self.lanes
                )
                self._inverse(0, self.n, source, target)
            with ir.Else():
                self._last_copied(start, source, edge)

    def _last_copied(self, start: Any, source: ComplexRows, edge: Any) -> None:
        self._inverse(0, self.n, source, self._block(edge, 0, self.points))
        with ir.serial(0, 2) as block:
            first = ir.Bind(start + block * self.new)
            with ir.serial(0, _within(self.workload.length - first, self.new)) as i:
                total = edge[block * self.points + i]
                at = self.out + first + i
                value = apply_epilogue(self.workload, total, self.added, self.f, [at])
                ir.buffer_store(self.y, value, [at])

    def _block(
        self, buffer: Any, start: Any, imaginary: int | None, limit: int | None = None
    ) -> ComplexRows:
        """Return the rows of a pair of blocks. The first begins at element ``start``, the second
        ``imaginary`` elements later. If ``imaginary`` is None, the second is all zeros."""
        leg = self.n // self.factors[0] * self.lanes
        return ComplexRows(buffer, start, self.lanes, leg, imaginary, limit)


def _within(count: Any, most: int) -> Any:
    """Return ``count``, clamped to the range from 0 to ``most``.

    It limits loops to the elements that exist. LLVM would mask the iterations beyond them, and a
    masked vector on an unmapped page takes a processor a microsecond.
    """
    return tirx.max(0, tirx.min(count, most))
