"""Staging of the tensors that a gradient's piece meets, as float32. Imports TVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cpu.pieces import channels_are_last
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import activation_derivative, gradient_of_sums

ZERO = tirx.const(0.0, "float32")
Read = Callable[[Any, Any, Any], Any]
"""A function that returns the float32 value at a row, a column and a lane."""


class Staging:
    """A buffer of ``places`` places, each with ``lanes`` neighbouring channels.

    Behind the places are ``beyond`` zeros, because a last vector reads beyond them.
    """

    def __init__(self, places: int, lanes: int, beyond: int) -> None:
        self.lanes = lanes
        self.buffer = ir.sblock_alloc_buffer((places * lanes + beyond,), "float32")
        if beyond:
            self._clear(places, beyond)

    def fill(
        self,
        start: Any,
        places: tuple[int, int],
        first: tuple[Any, Any],
        step: int,
        extents: tuple[Any, Any],
        read: Read,
    ) -> None:
        """Fill rows and columns of ``places``, from the place ``start`` on.

        The place in row r and column c gets the element r * ``step`` rows and c * ``step`` columns
        behind ``first``, or zero if that element is outside the plane of ``extents``.
        """
        rows, columns = places
        with ir.serial(0, rows) as r:
            row, line = ir.Bind(first[0] + r * step), ir.Bind(start + r * columns)
            begin = ir.Bind(_within((step - 1 - first[1]) // step, columns))
            end = ir.Bind(_within((extents[1] - 1 - first[1]) // step + 1, columns))
            with ir.If(tirx.all(row >= 0, row < extents[0])):
                with ir.Then():
                    self._clear(line, begin)
                    with ir.serial(0, end - begin) as c:
                        column = ir.Bind(first[1] + (begin + c) * step)
                        with self._over_lanes() as lane:
                            at = (line + begin + c) * self.lanes + lane
                            ir.buffer_store(self.buffer, read(row, column, lane), [at])
                    after = ir.Bind(tirx.max(begin, end))
                    self._clear(line + after, columns - after)
                with ir.Else():
                    self._clear(line, columns)

    def _clear(self, start: Any, places: Any) -> None:
        with ir.serial(0, places) as c, self._over_lanes() as lane:
            ir.buffer_store(self.buffer, ZERO, [(start + c) * self.lanes + lane])

    def _over_lanes(self) -> AbstractContextManager[Any]:
        """Return a vectorised loop over the lanes.

        There is no loop for a single lane, so that LLVM makes vectors of places.
        """
        return ir.vectorized(0, self.lanes) if self.lanes > 1 else nullcontext(0)


class Gradients:
    """The gradients of the sums, staged.

    Gradients of an activation's result are multiplied by the activation's derivative. If vectors
    are of channels, each gradient is multiplied when it is read. Otherwise all are multiplied after
    staging, in vectors of ``lanes`` places, because a row may be narrower than a vector.
    """

    def __init__(
        self,
        workload: DepthwiseConv2dWorkload,
        given: Sequence[Any],
        places: int,
        lanes: int,
        beyond: int,
    ) -> None:
        self._workload, self._given, self._lanes = workload, given, lanes
        self._last = channels_are_last(workload)
        self._staging = Staging(places, lanes if self._last else 1, beyond)
        self.buffer = self._staging.buffer
        self._sums = None if self._last or len(given) == 1 else Staging(places, 1, lanes)

    def stage(
        self,
        start: Any,
        places: tuple[int, int],
        first: tuple[Any, Any],
        width: Any,
        b: Any,
        channel: Callable[[Any], Any],
    ) -> None:
        """Stage places of image ``b`` from ``first`` on, in columns before ``width``.

        ``channel`` returns the channel of a lane.
        """
        workload, F = self._workload, self._workload.out_channels
        height, columns = workload.out_height, workload.out_width

        def place(row: Any, column: Any, lane: Any) -> Any:
            if self._last:
                return ((b * height + row) * columns + column) * F + channel(lane)
            return ((b * F + channel(lane)) * height + row) * columns + column

        def of_sums(*at: Any) -> Any:
            return gradient_of_sums(workload, *(each[place(*at)] for each in self._given))

        def alone(tensor: Any) -> Read:
            return lambda *at: widened(tensor[place(*at)], workload.dtype)

        where = (start, places, first, 1, (height, width))
        if self._sums is None:
            self._staging.fill(*where, of_sums)
            return
        gradients, sums = self._given
        self._staging.fill(*where, alone(gradients))
        self._sums.fill(0, *where[1:], alone(sums))
        with (
            ir.serial(0, ceil_div(places[0] * places[1], self._lanes)) as n,
            ir.vectorized(0, self._lanes) as lane,
        ):
            at = start + n * self._lanes + lane
            value = self.buffer[at] * activation_derivative(
                workload, self._sums.buffer[n * self._lanes + lane]
            )
            ir.buffer_store(self.buffer, value, [at])


def _within(place: Any, extent: int) -> Any:
    return tirx.max(0, tirx.min(place, extent))
