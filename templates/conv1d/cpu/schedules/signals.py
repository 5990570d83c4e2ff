"""The programs of ``CpuSignals``, written in TIR."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.conv1d.cpu.signals import (
    MAX_CHUNK,
    can_be_staged,
    has_staged_layout,
    outputs_per_task,
    pitch,
    remainders,
    staged_samples,
)
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat
from templates.kernels.registers import Sums
from templates.template import PARALLEL

Sample = Callable[[Any, Any, Any], Any]
"""A function of (c, t, i) for the sample that tap t of channel c meets at output i of the task."""
ZERO = tirx.const(0.0, "float32")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return Program(workload, config).function()


class Program:
    """Builder of the program, one function.

    It reorders the weights, so that those of neighbouring filters are neighbours. Then it runs a
    task for each range of outputs of the output channels that share an input.
    """

    def __init__(self, workload: Conv1dWorkload, config: dict[str, Any]) -> None:
        self.workload = workload
        self.argument_workload = workload  # the function takes this workload's arguments
        self.lanes: int = config["lanes"]
        self.vectors: int = config["vectors"]
        self.filters: int = config["filters"]
        self.outputs = outputs_per_task(config)
        self.remainders = remainders(workload)
        self.pitch = pitch(workload, self.outputs)
        self.reads_in_place = can_be_staged(workload) and has_staged_layout(workload)
        self.is_staged = can_be_staged(workload) and not self.reads_in_place
        self.inputs = workload.C // workload.summed
        self.filters_inside = config["inner"] == "filters"
        self.taps_loop = ir.unroll if config["unroll"] == "taps" else ir.serial
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial

    def function(self) -> Any:
        workload = self.workload
        ranges = ceil_div(workload.length, self.outputs)
        with main_function(self.argument_workload) as (builder, arguments):
            self.x, self.w, *self.added, self.y = flat(self.argument_workload, arguments)
            self.taps = ir.sblock_alloc_buffer((workload.inputs[1].elements,), "float32")
            self._order_weights()
            with self.loop(0, workload.B * self.inputs * ranges) as each:
                b = ir.Bind(each // (self.inputs * ranges))
                self._task(b, ir.Bind(each // ranges % self.inputs), ir.Bind(each % ranges))
        return builder.get()

    def _order_weights(self) -> None:
        """Copy ``w[input, filter, c, t]`` to ``taps[input, c, t, filter]``, in correlation form."""
        workload = self.workload
        several, summed, N = workload.multiplier, workload.summed, workload.N
        with (
            ir.serial(0, self.inputs) as each,
            ir.serial(0, several) as f,
            ir.serial(0, summed) as c,
            ir.serial(0, N) as t,
        ):
            tap = N - 1 - t if workload.kind == "convolve" else t
            weight = self.w[self._weight(each, f, c) * N + tap]
            place = ((each * summed + c) * N + t) * several + f
            ir.buffer_store(self.taps, widened(weight, workload.dtype), [place])

    def _weight(self, each: Any, f: Any, c: Any) -> Any:
        """Return the row of the weight that filter ``f`` applies to channel ``c`` of an input."""
        return (each * self.workload.multiplier + f) * self.workload.summed + c

    def _value(self, at: Any) -> Any:
        return widened(self.x[at], self.workload.dtype)

    def _task(self, b: Any, each: Any, number: Any) -> None:
        """Compute a range of outputs. If the last range is not whole, it overlaps the one before
        it."""
        workload, width = self.workload, self.lanes * self.vectors
        last = max(0, workload.length - self.outputs)
        start = ir.Bind(tirx.min(number * self.outputs, last))
        with opaque_block("task"):
            if self.is_staged:
                samples = ir.sblock_alloc_buffer(
                    (staged_samples(workload, self.outputs),), "float32"
                )
                self._stage(samples, b, each, start)
                source = partial(self._staged_sample, samples)
            else:
                source = partial(self._sample, b, each, start)
            last_filters = workload.multiplier - self.filters
            blocks = (ceil_div(workload.multiplier, self.filters), last_filters, self.filters)
            here = min(self.outputs, workload.length)
            tiles = (ceil_div(here, width), here - width, width)
            outer, inner = (tiles, blocks) if self.filters_inside else (blocks, tiles)
            with ir.serial(0, outer[0]) as one:
                first = ir.Bind(tirx.min(one * outer[2], outer[1]))
                with ir.serial(0, inner[0]) as other:
                    second = ir.Bind(tirx.min(other * inner[2], inner[1]))
                    i, f = (first, second) if self.filters_inside else (second, first)
                    if self.reads_in_place:
                        self._tile_from_input(b, each, f, start, i)
                    else:
                        self._tile(source, b, each, f, start, i)

    def _tile_from_input(self, b: Any, each: Any, f: Any, start: Any, i: Any) -> None:
        """Compute a tile that reads the input itself, or a staged copy if some samples are
        padding."""
        workload, d = self.workload, self.workload.dilation
        reach = self.lanes * self.vectors + (workload.N - 1) * d
        first = ir.Bind(start + i - workload.left)
        row = ir.Bind((b * workload.C + each) * workload.M)
        with ir.If(tirx.all(first >= 0, first + reach <= workload.M)):
            with ir.Then():
                here = ir.Bind(row + first)
                self._tile(lambda c, t, j: self.x[here + t * d + (j - i)], b, each, f, start, i)
            with ir.Else(), opaque_block("end"):
                samples = ir.sblock_alloc_buffer((reach,), "float32")
                with ir.serial(0, reach) as q:
                    place = first + q
                    inside = tirx.all(place >= 0, place < workload.M)
                    value = tirx.if_then_else(inside, self.x[row + place], ZERO)
                    ir.buffer_store(samples, value, [q])
                self._tile(lambda c, t, j: samples[t * d + (j - i)], b, each, f, start, i)

    def _stage(self, samples: Any, b: Any, each: Any, start: Any) -> None:
        """Fill ``samples[c, r, q]`` with sample (start + q) * stride + r * dilation % stride of the
        padded input: zeros, samples, zeros."""
        workload, s = self.workload, self.workload.stride
        with ir.serial(0, workload.summed) as c, ir.serial(0, self.remainders) as r:
            row = ir.Bind((c * self.remainders + r) * self.pitch)
            first = ir.Bind(start * s + r * workload.dilation % s - workload.left)
            begin = ir.Bind(_within((s - 1 - first) // s, self.pitch))
            end = ir.Bind(_within((workload.M - 1 - first) // s + 1, self.pitch))
            with ir.serial(0, begin) as q:
                ir.buffer_store(samples, ZERO, [row + q])
            with ir.serial(0, end - begin) as q:
                place = first + (begin + q) * s
                channel = each * workload.summed + c
                value = self._value(self._place(b, channel, place, workload.C, workload.M))
                ir.buffer_store(samples, value, [row + begin + q])
            after = ir.Bind(tirx.max(begin, end))
            with ir.serial(0, self.pitch - after) as q:
                ir.buffer_store(samples, ZERO, [row + after + q])

    def _staged_sample(self, samples: Any, c: Any, t: Any, i: Any) -> Any:
        """Return the staged sample that tap t of channel c meets at output i of the task."""
        row = c * self.remainders + t % self.remainders
        ahead = t * self.workload.dilation // self.workload.stride
        return samples[row * self.pitch + ahead + i]

    def _sample(self, b: Any, each: Any, start: Any, c: Any, t: Any, i: Any) -> Any:
        """Return the same sample as ``_staged_sample``, but from the input. It is 0 if it is
        padding."""
        workload = self.workload
        place = (start + i) * workload.stride + t * workload.dilation - workload.left
        at = self._place(b, each * workload.summed + c, place, workload.C, workload.M)
        value = self._value(at)
        return tirx.if_then_else(tirx.all(place >= 0, place < workload.M), value, ZERO)

    def _tile(self, source: Sample, b: Any, each: Any, f: Any, start: Any, i: Any) -> None:
        """Compute ``filters`` by ``vectors`` vectors of outputs. If an output is the sum of many
        products, they are summed in chunks."""
        workload = self.workload
        taps = min(workload.N, MAX_CHUNK)
        channels = min(workload.summed, max(1, MAX_CHUNK // workload.N))
        size = self.filters * self.vectors
        with opaque_block("tile"):
            totals = Sums(size, self.lanes)
            totals.zero()
            if (channels, taps) == (workload.summed, workload.N):
                self._chunk(totals, source, each, f, i, (0, channels), (0, taps))
            else:
                sums = Sums(size, self.lanes)
                with (
                    ir.serial(0, ceil_div(workload.summed, channels)) as over_c,
                    ir.serial(0, ceil_div(workload.N, taps)) as over_t,
                ):
                    sums.zero()
                    c, t = ir.Bind(over_c * channels), ir.Bind(over_t * taps)
                    some = (
                        (c, tirx.min(channels, workload.summed - c)),
                        (t, tirx.min(taps, workload.N - t)),
                    )
                    self._chunk(sums, source, each, f, i, *some)
                    with ir.vectorized(0, self.lanes) as lane:
                        for number in range(size):
                            totals.add(number, lane, sums.load(number, lane))
            self._store(totals, b, each, f, start + i)

    def _chunk(
        self,
        sums: Sums,
        source: Sample,
        each: Any,
        f: Any,
        i: Any,
        channels: tuple[Any, Any],
        taps: tuple[Any, Any],
    ) -> None:
        """Add the products of some channels and taps to ``sums``. Both ranges are given as the
        first index and a count."""
        workload = self.workload
        loop = self.taps_loop if isinstance(taps[1], int) else ir.serial
        with ir.serial(0, channels[1]) as some_c, loop(0, taps[1]) as some_t:
            c, t = some_c + channels[0], some_t + taps[0]
            tap = ((each * workload.summed + c) * workload.N + t) * workload.multiplier
            weights = [ir.Bind(self.taps[tap + f + number]) for number in range(self.filters)]
            with ir.vectorized(0, self.lanes) as lane:
                for number, weight in enumerate(weights):
                    for vector in range(self.vectors):
                        sample = source(c, t, i + vector * self.lanes + lane)
                        sums.add(self._sum_of(number, vector), lane, sample * weight)

    def _store(self, sums: Sums, b: Any, each: Any, f: Any, i: Any) -> None:
        workload, F = self.workload, self.workload.out_channels
        with ir.vectorized(0, self.lanes) as lane:
            for number in range(self.filters):
                channel = each * workload.multiplier + f + number
                for vector in range(self.vectors):
                    ahead = i + vector * self.lanes + lane
                    at = self._place(b, channel, ahead, F, workload.length)
                    total = sums.load(self._sum_of(number, vector), lane)
                    value = apply_epilogue(
                        workload, total, self.added, channel, [at], in_vectors=True
                    )
                    ir.buffer_store(self.y, value, [at])

    def _place(self, b: Any, c: Any, i: Any, channels: int, extent: int) -> Any:
        """Return the flat index of a sample in a tensor of ``channels`` channels, each of
        ``extent`` samples."""
        if self.workload.layout == "NWC":
            return (b * extent + i) * channels + c
        return (b * channels + c) * extent + i

    def _sum_of(self, number: int, vector: int) -> int:
        return number * self.vectors + vector


def _within(place: Any, extent: int) -> Any:
    return tirx.max(0, tirx.min(place, extent))
