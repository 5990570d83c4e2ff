"""The programs of ``CpuBackward``, written in TIR."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.conv1d.cpu.backward import (
    channel_blocks,
    is_channels_last,
    places_of_sums,
    tiles_of_channel,
)
from templates.conv1d.frame import Frame
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.cpu.schedules.staging import ZERO, Staging
from templates.kernels.conversions import narrowed, widened
from templates.kernels.epilogue import activation_derivative
from templates.kernels.function import main_function, opaque_block
from templates.kernels.parameters import flat
from templates.kernels.registers import Sums
from templates.template import PARALLEL

MAX_CHUNK = 512  # products that are added up in one float32 sum
GROUP = 32  # tiles whose sums are added up before they are added to the total
TAPS = 8  # taps whose sums are in registers at the same time


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return _Program(workload, config).function()


class _Program:
    """Builder of the program, one function: a task for each part and block of channels, then the
    sums over the parts.

    The places of a tile are those of :class:`Frame`. A place has ``channels`` neighbouring numbers
    in a buffer.
    """

    def __init__(self, workload: Conv1dWorkload, config: dict[str, Any]) -> None:
        self.workload, self.frame = workload, Frame.of(workload)
        self.places: int = config["places"]
        self.tiles = self.frame.tiles(self.places)
        self.tiles_of_channel = tiles_of_channel(workload, config)
        self.outputs = places_of_sums(workload, config)
        self.lanes: int = config["lanes"]
        self.channels = self.lanes if is_channels_last(workload) else 1
        self.blocks, self.parts = channel_blocks(workload, config), config["parts"]
        self.sums = workload.N + workload.bias
        self.loop = ir.parallel if config["threading"] == PARALLEL else ir.serial

    def function(self) -> Any:
        workload = self.workload
        with main_function(workload) as (builder, arguments):
            names = [argument.name for argument in workload.arguments]
            self.tensors = dict(zip(names, flat(workload, arguments), strict=True))
            size = self.parts * workload.C * self.sums
            self.partial = ir.sblock_alloc_buffer((size,), "float32")
            with self.loop(0, self.blocks * self.parts) as task:
                self._task(ir.Bind(task // self.parts), ir.Bind(task % self.parts))
            with self.loop(0, workload.C) as channel:
                self._add_parts(channel)
        return builder.get()

    def _task(self, block: Any, part: Any) -> None:
        c = ir.Bind(tirx.min(block * self.channels, self.workload.C - self.channels))
        with opaque_block("task"):
            beyond = 0 if is_channels_last(self.workload) else self.lanes
            self.x = Staging(self.outputs + self.frame.reach, self.channels, beyond)
            self.gradients = Staging(self.outputs, self.channels, beyond)
            self.dx, self.group, self.total = (
                ir.sblock_alloc_buffer((size,), "float32")
                for size in (
                    self.places * self.channels,
                    self.sums * self.lanes,
                    self.sums * self.lanes,
                )
            )
            self._stage_weights(c)
            self._clear(self.total)
            first = ir.Bind(part * self.tiles_of_channel // self.parts)
            count = ir.Bind((part + 1) * self.tiles_of_channel // self.parts - first)
            with ir.serial(0, ceil_div(self.tiles_of_channel, GROUP)) as some:
                left = ir.Bind(tirx.max(0, tirx.min(GROUP, count - some * GROUP)))
                self._clear(self.group)
                with ir.serial(0, left) as each:
                    self._add_tile(c, ir.Bind(first + some * GROUP + each))
                with ir.serial(0, self.sums) as n, ir.vectorized(0, self.lanes) as lane:
                    at = n * self.lanes + lane
                    ir.buffer_store(self.total, self.total[at] + self.group[at], [at])
            self._store_sums(part, c)

    def _stage_weights(self, c: Any) -> None:
        """Stage the taps in the order in which they meet samples, then the bias, each as a vector
        of ``lanes``."""
        workload, N = self.workload, self.workload.N
        self.weights = ir.sblock_alloc_buffer(((N + 1) * self.lanes,), "float32")
        of_lane = 1 if is_channels_last(workload) else 0
        with ir.serial(0, self.lanes) as lane:
            channel = c + lane * of_lane
            with ir.serial(0, N) as t:
                tap = self.tensors["weight"][channel * N + self._tap(t)]
                ir.buffer_store(self.weights, widened(tap, workload.dtype), [t * self.lanes + lane])
            if "bias" in self.tensors:
                bias = widened(self.tensors["bias"][channel], workload.dtype)
                ir.buffer_store(self.weights, bias, [N * self.lanes + lane])

    def _tap(self, t: Any) -> Any:
        return self.workload.N - 1 - t if self.workload.kind == "convolve" else t

    def _clear(self, buffer: Any) -> None:
        with ir.serial(0, self.sums) as n, ir.vectorized(0, self.lanes) as lane:
            ir.buffer_store(buffer, ZERO, [n * self.lanes + lane])

    def _add_tile(self, c: Any, number: Any) -> None:
        workload, frame = self.workload, self.frame
        b, start = ir.Bind(number // self.tiles), ir.Bind(number % self.tiles * self.places)
        sample, output = ir.Bind(frame.first_sample(start)), ir.Bind(frame.first_output(start))
        within = (1, self.outputs + frame.reach)
        signal = self._reading("input", b, c, workload.M)
        self.x.fill(0, within, (0, sample - frame.reach), 1, (1, workload.M), signal)
        gradient = self._reading("output_gradient", b, c, workload.length)
        within = (1, self.outputs)
        self.gradients.fill(0, within, (0, output), 1, (1, workload.length), gradient)
        if workload.activation != "none":
            self._multiply_by_derivative()
        self._add_sums()
        self._store_input_gradient(b, c, sample)

    def _reading(self, name: str, b: Any, c: Any, extent: int) -> Callable[..., Any]:
        tensor = self.tensors[name]
        return lambda _, i, lane: widened(
            tensor[self._at(b, c + lane, i, extent)], self.workload.dtype
        )

    def _at(self, b: Any, c: Any, i: Any, extent: int) -> Any:
        C = self.workload.C
        if is_channels_last(self.workload):
            return (b * extent + i) * C + c
        return (b * C + c) * extent + i

    def _tap_offset(self, t: int) -> int:
        """Return the distance from the first tap's staged sample to that of tap t, in numbers."""
        return t * self.workload.dilation * self.channels

    def _vectors(self, places: int) -> int:
        """Return the number of vectors in so many places."""
        return places * self.channels // self.lanes

    def _weight(self, t: int, lane: Any) -> Any:
        return self.weights[t * self.lanes + lane]

    def _multiply_by_derivative(self) -> None:
        """Compute a tile's sums, and multiply the staged gradients by the derivative at these
        sums."""
        N = self.workload.N
        with ir.serial(0, self._vectors(self.outputs)) as n, ir.vectorized(0, self.lanes) as lane:
            at = n * self.lanes + lane
            terms = [
                self.x.buffer[at + self._tap_offset(t)] * self._weight(t, lane) for t in range(N)
            ]
            if "bias" in self.tensors:
                terms.append(self._weight(N, lane))
            total = reduce(lambda a, b: a + b, terms)
            gradient = self.gradients.buffer[at] * activation_derivative(self.workload, total)
            ir.buffer_store(self.gradients.buffer, gradient, [at])

    def _add_sums(self) -> None:
        """Add a tile's terms to the gradients of weight and bias. A tap's terms are the sums'
        gradients times the samples that the tap meets; the bias's terms are the sums' gradients
        alone."""
        numbers = list(range(self.sums))
        vectors = self._vectors(self.places)
        for first in range(0, self.sums, TAPS):
            group = numbers[first : first + TAPS]
            with ir.serial(0, ceil_div(vectors, MAX_CHUNK)) as chunk, opaque_block("sums"):
                sums = Sums(len(group), self.lanes)
                sums.zero()
                some = tirx.min(MAX_CHUNK, vectors - chunk * MAX_CHUNK)
                with ir.serial(0, some) as n, ir.vectorized(0, self.lanes) as lane:
                    at = (chunk * MAX_CHUNK + n) * self.lanes + lane
                    gradient = self.gradients.buffer[at]
                    for place, t in enumerate(group):
                        is_tap = t < self.workload.N
                        product = gradient * self.x.buffer[at + self._tap_offset(t)]
                        sums.add(place, lane, product if is_tap else gradient)
                with ir.vectorized(0, self.lanes) as lane:
                    for place, t in enumerate(group):
                        to = t * self.lanes + lane
                        value = self.group[to] + sums.load(place, lane)
                        ir.buffer_store(self.group, value, [to])

    def _store_input_gradient(self, b: Any, c: Any, sample: Any) -> None:
        workload, reach = self.workload, self.frame.reach * self.channels
        with ir.serial(0, self._vectors(self.places)) as n, ir.vectorized(0, self.lanes) as lane:
            at = n * self.lanes + lane
            terms = [
                self.gradients.buffer[at + reach - self._tap_offset(t)] * self._weight(t, lane)
                for t in range(workload.N)
            ]
            ir.buffer_store(self.dx, reduce(lambda a, b: a + b, terms), [at])
        first = ir.Bind(tirx.max(0, -sample))
        end = ir.Bind(tirx.min(self.places, workload.M - sample))
        output = self.tensors["input_gradient"]
        with ir.serial(0, tirx.max(0, end - first)) as n:
            e = ir.Bind(first + n)
            if self.channels == 1:
                value = narrowed(self.dx[e], workload.dtype)
                ir.buffer_store(output, value, [self._at(b, c, sample + e, workload.M)])
            else:
                with ir.vectorized(0, self.channels) as lane:
                    value = narrowed(self.dx[e * self.channels + lane], workload.dtype)
                    place = self._at(b, c + lane, sample + e, workload.M)
                    ir.buffer_store(output, value, [place])

    def _store_sums(self, part: Any, c: Any) -> None:
        """Store the part's sums, with those of one channel side by side."""
        with ir.serial(0, self.channels) as channel, ir.serial(0, self.sums) as n:
            first = n * self.lanes
            if is_channels_last(self.workload):
                value = self.total[first + channel]
            else:
                value = reduce(
                    lambda a, b: a + b, (self.total[first + lane] for lane in range(self.lanes))
                )
            to = (part * self.workload.C + c + channel) * self.sums + n
            ir.buffer_store(self.partial, value, [to])

    def _add_parts(self, channel: Any) -> None:
        workload = self.workload

        def total(n: Any) -> Any:
            values = (
                self.partial[(part * workload.C + channel) * self.sums + n]
                for part in range(self.parts)
            )
            return narrowed(reduce(lambda a, b: a + b, values), workload.dtype)

        with ir.serial(0, workload.N) as t:
            to = channel * workload.N + self._tap(t)
            ir.buffer_store(self.tensors["weight_gradient"], total(t), [to])
        if workload.bias:
            ir.buffer_store(self.tensors["bias_gradient"], total(workload.N), [channel])
