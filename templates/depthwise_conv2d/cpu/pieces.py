"""Pieces of planes in which a CPU computes gradients, and how taps move over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload, Taps
from templates.spaces.space import ConfigSpace
from templates.template import Config

MAX_STAGED = 2**22  # floats of a task
USUAL_STAGED = 2**19
VECTOR = 16  # lanes of a usual vector


@dataclass(frozen=True)
class Axis:
    """The used taps of an axis. Tap k lies k * ``step`` elements behind the first.

    Modulo the stride, these distances have ``phases`` different remainders. Taps k and k modulo
    ``phases`` have the same remainder. The quotient is the number of outputs by which the tap is
    ahead of the first, at most ``shift``.
    """

    taps: int
    step: int
    before: int
    stride: int

    @property
    def phases(self) -> int:
        """Return the number of different remainders of the taps' distances modulo the stride."""
        return min(self.taps, self.stride // math.gcd(self.stride, self.step))

    @property
    def shift(self) -> int:
        """Return how many outputs the last tap is ahead of the first."""
        return (self.taps - 1) * self.step // self.stride

    def remainder(self, k: Any) -> Any:
        """Return the remainder of tap k's distance from the first tap, divided by the stride."""
        return k * self.step % self.stride

    def ahead(self, k: Any) -> Any:
        """Return how many outputs tap k is ahead of the first tap."""
        return k * self.step // self.stride


def axes(workload: DepthwiseConv2dWorkload) -> tuple[Axis, Axis]:
    """Return the axes of rows and of columns."""

    def axis(taps: Taps) -> Axis:
        return Axis(taps.count, taps.step, taps.before, workload.stride)

    down, across = workload.used_taps
    return axis(down), axis(across)


def channels_are_last(workload: DepthwiseConv2dWorkload) -> bool:
    """Return whether channels are last. Vectors are then of channels, otherwise of columns."""
    return workload.layout == "NHWC"


@dataclass(frozen=True)
class Piece:
    """A piece of ``rows`` by ``columns`` of a plane of ``height`` by ``width``.

    It is staged in rows of ``pitch`` places, together with the places beside it that its taps
    reach. The last rows and columns of pieces may lie beyond the plane.
    """

    height: int
    width: int
    rows: int
    columns: int
    down: Axis
    across: Axis

    @property
    def pitch(self) -> int:
        """Return the number of places from the start of a staged row to that of the next."""
        return self.columns + self.across.shift

    @property
    def window(self) -> int:
        """Return the number of staged places."""
        return (self.rows + self.down.shift) * self.pitch

    @property
    def bands(self) -> int:
        """Return the number of pieces from the top of a plane to its bottom."""
        return ceil_div(self.height, self.rows)

    @property
    def strips(self) -> int:
        """Return the number of pieces from the left of a plane to its right."""
        return ceil_div(self.width, self.columns)

    @property
    def flat(self) -> int:
        """Return the number of staged places from the piece's first to its last."""
        return (self.rows - 1) * self.pitch + self.columns

    @property
    def filled(self) -> float:
        """Return the share of the pieces' rows and columns that belongs to the plane."""
        area = self.bands * self.rows * self.strips * self.columns
        return self.height * self.width / area


def add_knobs(
    space: ConfigSpace, workload: DepthwiseConv2dWorkload, height: int, width: int
) -> None:
    """Declare ``lanes``, and the ``rows`` and ``columns`` of a piece of a plane of this size."""
    space.knob("lanes", lanes(workload))
    space.knob("rows", row_counts(height))
    space.knob("columns", column_counts(width))


def lanes(workload: DepthwiseConv2dWorkload) -> list[int]:
    """Return the lanes that a vector may have."""
    if not channels_are_last(workload):
        return [4, 8, VECTOR]
    of_input = workload.direction == "backward_input"
    channels = workload.C if of_input else workload.out_channels
    return [n for n in (1, 2, 4, 8, VECTOR, 32, 64) if n <= channels]


def vectors_of(sums: int, config: Config) -> int:
    """Return how many vectors of at most 16 lanes hold ``sums`` sums of ``lanes`` lanes."""
    return sums * ceil_div(config["lanes"], VECTOR)


def row_counts(height: int) -> list[int]:
    """Return the values of ``rows``: 1, and those that divide a plane's height evenly."""
    return sorted({1} | {ceil_div(height, n) for n in (1, 2, 4, 8)})


def column_counts(width: int) -> list[int]:
    """Return the values of ``columns``: equal widths, at most 256 and at most 1024 columns."""
    return sorted({ceil_div(width, ceil_div(width, most)) for most in (256, 1024)})


def usual_lanes(workload: DepthwiseConv2dWorkload, vector_bytes: int) -> int:
    """Return the largest choice of lanes that fits into a vector register, or into 16 bytes."""
    most = max(4, min(VECTOR, vector_bytes // 4))
    return max(n for n in lanes(workload) if n <= most)


def limit_staged(space: ConfigSpace, staged: Callable[[Config], int], smallest: Config) -> None:
    """Declare that a task stages at most USUAL_STAGED floats, unless its piece is the smallest."""
    space.constraint(
        f"a task stages at most {USUAL_STAGED} floats, or is as small as it can be",
        lambda c: (
            staged(c) <= USUAL_STAGED or all(c[name] == value for name, value in smallest.items())
        ),
        reads=tuple(smallest),
    )


def smallest_piece(workload: DepthwiseConv2dWorkload, width: int) -> Config:
    """Return the knobs of the smallest piece."""
    return {"lanes": lanes(workload)[0], "rows": 1, "columns": column_counts(width)[0]}


def usual_piece(
    workload: DepthwiseConv2dWorkload,
    height: int,
    width: int,
    vector_bytes: int,
    staged: Callable[[Config], int],
) -> Config:
    """Return a piece with the most rows that a task usually stages, or else the smallest piece."""
    smallest = smallest_piece(workload, width)
    usual = smallest | {"lanes": usual_lanes(workload, vector_bytes)}
    pieces = (usual | {"rows": rows} for rows in reversed(row_counts(height)))
    return next((each for each in pieces if staged(each) <= USUAL_STAGED), smallest)
