"""The inputs every candidate is checked on, with their references."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates import operator
from templates.argument import Argument
from templates.dtypes import in_numpy
from templates.exact.in_threads import in_threads
from templates.workload import Workload

CASES = ("normal", "positive", "impulse", "decaying", "offset")
FEW = 32
"""An output with more numbers than this always has a large one."""

LARGE = 2**24
"""Bytes of a workload whose cases but the first have only :data:`SIGNALS` different signals or, of
one signal, :data:`CHANNELS` different channels."""
SIGNALS, CHANNELS = 5, 37
"""Primes: what takes another signal of a batch than it should takes another one of these. A
gradient has at least a number for each channel, and needs more than :data:`FEW`."""

SPREAD = np.float32(4)
"""Of sums before an activation, which turns at up to 6."""
STEEP = 5.0
"""A sum at which every activation has about the derivative 1."""

RANGE = {"float32": 1e20, "bfloat16": 1e20, "float16": 2.0**4}
"""A factor of one tensor, of whose inverse the other is a multiple: sums are as they were, while
neither what is split into halves nor what is transformed may overflow or vanish."""
OFFSET = {"float32": 1000.0, "bfloat16": 16.0, "float16": 64.0}
"""What stands on a large constant, in standard deviations; less if the dtype has fewer bits."""

PIECE = 2**22
"""Elements that are drawn or rounded by one thread."""

Array = NDArray[np.floating[Any]]
"""Of its argument's dtype."""
References = Callable[..., Mapping[str, NDArray[np.float64]]]
"""By the outputs' names, of a workload and what is given, in the workload's order."""


@dataclass(frozen=True)
class Case:
    """One check: what is given, in the workload's order, and the exact outputs by their names,
    rounded once. An array with fewer signals or channels than the workload's argument stands for
    them again and again."""

    name: str
    given: tuple[Array, ...]
    references: dict[str, NDArray[np.floating[Any]]]

    @cached_property
    def scales(self) -> dict[str, float]:
        """max|ref| of each output."""
        return {name: float(max(r.max(), -r.min())) for name, r in self.references.items()}


def kept_in(workload: Workload) -> str:
    """The dtype in which references are kept. They are computed in float64. Of 16 bits an output
    has at most eleven of the mantissa, so float32 says all of a reference that can matter, and a
    file is half as large."""
    return "float64" if workload.dtype == "float32" else "float32"


def size(workload: Workload) -> int:
    """Bytes of the files that :func:`write` makes, but for their headers."""
    itemsize = np.dtype(kept_in(workload)).itemsize
    written = [_distinct(workload, name) for name in CASES]
    return sum(
        sum(argument.bytes for argument in each.given)
        + sum(output.elements * itemsize for output in each.outputs)
        for each in written
    )


def write(workload: Workload, directory: Path, seed: int) -> None:
    """Draw the inputs and work out their references, once for all processes of a job."""
    references = operator(workload.operator).references
    rng = np.random.default_rng(seed)
    for name in CASES:
        given = draw(workload, name, rng)
        while _cancels(workload, given, references):
            given = draw(workload, name, rng)
        for argument, array in zip(workload.given, given, strict=True):
            np.save(directory / f"{name}.{argument.name}.npy", array)
        for output, exact in _exact(workload, _distinct(workload, name), given).items():
            kept = exact.astype(kept_in(workload), copy=False)
            np.save(directory / f"{name}.{output}.npy", kept)


def _distinct(workload: Workload, name: str) -> Workload:
    """The workload of the signals and channels that a case has: of a large workload the first case
    alone has all. To draw as many for each would take longer than a search."""
    few = any(output.elements <= FEW for output in workload.outputs)
    if name == CASES[0] or workload.bytes < LARGE or few:
        return workload
    return workload.reduced_to(SIGNALS, CHANNELS)


def _exact(
    workload: Workload, distinct: Workload, given: Sequence[Array]
) -> dict[str, NDArray[np.float64]]:
    """The outputs for what is ``given`` for the ``distinct`` signals of a workload: of each signal,
    or, if they are sums over all signals, with each as often as it comes."""
    references = operator(workload.operator).references
    if distinct == workload:
        return references(workload, *given)
    outputs = zip(workload.outputs, distinct.outputs, strict=True)
    whole = [output.name for output, own in outputs if output.shape == own.shape]
    exact = references(distinct, *given) if len(whole) < len(workload.outputs) else {}
    if whole:
        signals, known = (each.model_dump()["B"] for each in (workload, distinct))
        often = np.bincount(np.arange(signals) % known).astype(np.float64)
        weighted = (
            (array.T * often).T if argument.role == "gradient" else array
            for argument, array in zip(distinct.given, given, strict=True)
        )
        sums = references(distinct, *weighted)
        exact |= {name: sums[name] for name in whole}
    return exact


def read(workload: Workload, directory: Path) -> list[Case]:
    """The cases as written, mapped from disk."""

    def mapped(case: str, part: str, dtype: str) -> Any:
        # a file has a dtype that is not NumPy's own as so many bytes
        return np.load(directory / f"{case}.{part}.npy", mmap_mode="r").view(in_numpy(dtype))

    return [
        Case(
            case,
            tuple(mapped(case, each.name, each.dtype) for each in workload.given),
            {each.name: mapped(case, each.name, kept_in(workload)) for each in workload.outputs},
        )
        for case in CASES
    ]


def draw(workload: Workload, name: str, rng: np.random.Generator) -> tuple[Array, ...]:
    """What is given in a case. ``normal`` is what users have; ``positive`` sums without
    cancelling, where rounding errors grow; ``impulse`` has a first argument that is zero but for
    the corners, where padding and halo go wrong. ``decaying`` has a large first argument and a tiny
    second, which begins with a spike and decays: no other product averages a rounding error out.
    ``offset`` has a tiny first argument on a large constant, and a large second. All are drawn in
    float32 and rounded to their dtype."""
    arguments = _distinct(workload, name).given
    return tuple(
        _drawn(workload, argument, place, name, rng) for place, argument in enumerate(arguments)
    )


def _drawn(
    workload: Workload, argument: Argument, place: int, name: str, rng: np.random.Generator
) -> Array:
    """``place`` is the argument's among those of the workload that are given."""
    if name == "positive":
        values = _filled(
            argument.shape, rng, lambda own, out: own.random(out=out, dtype=np.float32)
        )
        values += np.float32(0.5)
        if place == 1:
            values *= _headroom(workload)
    elif name == "impulse" and place == 0:
        values = _corners(argument)
    elif name in ("decaying", "offset") and place < 2:
        values = _extreme(workload, argument, name, rng, is_first=place == 0)
    else:
        values = _normal(argument.shape, rng)
        if argument.role == "sums":
            values *= SPREAD
    return _rounded(values, argument.dtype)


def _normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    return _filled(shape, rng, lambda own, out: own.standard_normal(out=out, dtype=np.float32))


def _filled(
    shape: tuple[int, ...],
    rng: np.random.Generator,
    fill: Callable[[np.random.Generator, NDArray[np.float32]], object],
) -> NDArray[np.float32]:
    """Drawn by pieces, each by a generator of its own: the same numbers on any processors."""
    values = np.empty(shape, np.float32)
    pieces = _pieces(values)
    own = rng.spawn(len(pieces)) if len(pieces) > 1 else [rng]
    in_threads(lambda at: fill(own[at], pieces[at]), range(len(pieces)))
    return values


def _rounded(values: NDArray[np.float32], dtype: str) -> Array:
    rounded: Array = np.empty(values.shape, in_numpy(dtype))

    def round_(pair: tuple[Array, NDArray[np.float32]]) -> None:
        pair[0][...] = pair[1]

    in_threads(round_, zip(_pieces(rounded), _pieces(values), strict=True))
    return rounded


def _pieces(array: Any) -> list[Any]:
    flat = array.reshape(-1)
    return [flat[start : start + PIECE] for start in range(0, flat.size, PIECE)]


def _corners(argument: Argument) -> NDArray[np.float32]:
    """Zeros, but at both ends of height and width; of the last axis if they are not named."""
    values = np.zeros(argument.shape, np.float32)
    axes = [at for at, axis in enumerate(argument.layout or "") if axis in "HW"] or [-1]
    for ends in np.ndindex(*(2,) * len(axes)):
        place: list[Any] = [slice(None)] * values.ndim
        for axis, end in zip(axes, ends, strict=True):
            place[axis] = -end
        values[tuple(place)] = 1.0 + sum(ends)
    return values


def _extreme(
    workload: Workload, argument: Argument, name: str, rng: np.random.Generator, *, is_first: bool
) -> NDArray[np.float32]:
    """Of the size that makes sums no larger than on normal input, times a power of the range."""
    values = _normal(argument.shape, rng)
    range_of = RANGE[workload.dtype]
    if name == "decaying":
        if not is_first:
            extent = argument.shape[-1]
            values *= np.exp(np.arange(extent) * np.float32(-8 / extent))
            spikes = rng.uniform(0.5, 0.75, argument.shape[:-1])
            values[..., 0] = spikes * math.sqrt(extent)
        return values * np.float32(range_of if is_first else 1 / range_of)
    if is_first:
        values /= np.float32(OFFSET[workload.dtype])
        values += np.float32(1)
        values /= np.float32(2)
    else:  # sums of all taps do not vanish: a program in float32 would be wrong, too
        values += np.float32(3 / math.sqrt(workload.taps)) - values.mean()
    return values * np.float32(1 / range_of if is_first else range_of)


def _headroom(workload: Workload) -> np.float32:
    """The power of two that keeps sums of all taps, of factors up to 1.5 each, within the dtype."""
    _, over = math.frexp(1.5 * 1.5 * workload.taps / float(_limits(workload).max))
    return np.float32(2.0 ** -max(0, over))


def _limits(workload: Workload) -> Any:
    """As ``numpy.finfo`` has them, of the dtype."""
    if workload.dtype != "bfloat16":
        return np.finfo(workload.dtype)
    return np.finfo(
        np.float32
    )  # their exponents are alike, and so are the least and about the most


def _cancels(workload: Workload, given: Sequence[Array], references: References) -> bool:
    """Whether all numbers of an output are far smaller than such sums usually are, or below the
    normal range of the dtype. The error is relative to the largest of them, so an unlucky draw for
    an output with few would fail right programs."""
    few = [output.name for output in workload.outputs if output.elements <= FEW]
    if not few:
        return False
    squares = (
        np.full_like(array, STEEP) if argument.role == "sums" else array.astype(np.float64) ** 2
        for argument, array in zip(workload.given, given, strict=True)
    )
    usual, exact = references(workload, *squares), references(workload, *given)
    return any(_vanishes(workload, usual[name], exact[name]) for name in few)


def _vanishes(workload: Workload, squares: NDArray[Any], exact: NDArray[Any]) -> bool:
    """Of an output, with the sums of the squares of its terms."""
    deviation = math.sqrt(squares.max())
    if not deviation:  # no tap of a strided or dilated kernel meets an impulse
        return False
    least = max(deviation / 2, float(_limits(workload).smallest_normal))
    return bool(np.abs(exact).max() < least)
