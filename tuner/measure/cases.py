"""The cases: inputs on which every candidate is checked, with their exact outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""The names of the cases, which :func:`draw` describes."""
FEW_ELEMENTS = 32
"""An output with more elements than this has a large element in every draw. The other outputs are
checked by :func:`_is_unsuitable`."""

LARGE = 2**24
"""Size in bytes from which a workload is large. All its cases but the first have only
:data:`SIGNALS` different signals, which repeat. If it has one signal, they have only
:data:`CHANNELS` different channels, which repeat."""
SIGNALS, CHANNELS = 5, 37
"""These are primes, so that a program that reads a wrong signal or channel, for example one that is
a power of two away, reads different data. There are more channels than :data:`FEW_ELEMENTS`,
because a gradient may have only one element for each channel."""

SUMS_STD = np.float32(4)
"""Standard deviation of the sums before an activation: they pass the points, up to 6, at which an
activation changes its form."""
LINEAR_AT = 5.0
"""A sum at which the derivative of every activation is about 1."""

RANGE = {"float32": 1e20, "bfloat16": 1e20, "float16": 2.0**4}
"""By dtype, the factor of one input in the cases ``decaying`` and ``offset``; the other input is
divided by it. So the sums keep their size. But a program that splits numbers into halves, or
transforms inputs, fails if these overflow or vanish."""
OFFSET = {"float32": 1000.0, "bfloat16": 16.0, "float16": 64.0}
"""By dtype, the constant in the case ``offset``, as a multiple of the standard deviation of the
noise on it. It is smaller for dtypes with fewer bits."""

PIECE = 2**22
"""Elements that one thread draws or rounds at a time."""

Array = NDArray[np.floating[Any]]
"""An array of its argument's dtype."""
References = Callable[..., Mapping[str, NDArray[np.float64]]]
"""A function of a workload and its inputs, in the workload's order, that returns the exact outputs
by their names."""


@dataclass(frozen=True)
class Case:
    """One check: ``inputs`` are in the workload's order; ``references`` are the exact outputs, by
    their names, rounded once.

    An array may have fewer signals or channels than its argument. Then it is repeated to fill it.
    """

    name: str
    inputs: tuple[Array, ...]
    references: dict[str, NDArray[np.floating[Any]]]

    @cached_property
    def scales(self) -> dict[str, float]:
        """The largest absolute value of each output's reference, by the outputs' names."""
        return {name: float(max(r.max(), -r.min())) for name, r in self.references.items()}


def reference_dtype(workload: Workload) -> str:
    """Return the dtype in which a workload's references are kept.

    References are computed in float64. A 16-bit output has at most eleven bits of mantissa, so
    float32 keeps everything of its reference that matters, and the file is half as large.
    """
    return "float64" if workload.dtype == "float32" else "float32"


def size(workload: Workload) -> int:
    """Return the bytes of all files that :func:`write` makes, without their headers."""
    itemsize = np.dtype(reference_dtype(workload)).itemsize
    written = [_without_repeats(workload, name) for name in CASES]
    return sum(
        sum(argument.bytes for argument in each.inputs)
        + sum(output.elements * itemsize for output in each.outputs)
        for each in written
    )


def write(workload: Workload, directory: Path, seed: int) -> None:
    """Draw the inputs of all cases, compute the references, and write both to the directory.

    Each array is a file ``CASE.ARGUMENT.npy``. The same seed gives the same numbers. This is done
    once for all processes of a job.
    """
    references = operator(workload.operator).references
    rng = np.random.default_rng(seed)
    for name in CASES:
        inputs = draw(workload, name, rng)
        while _is_unsuitable(workload, inputs, references):
            inputs = draw(workload, name, rng)
        for argument, array in zip(workload.inputs, inputs, strict=True):
            np.save(directory / f"{name}.{argument.name}.npy", array)
        for output, exact in _exact_outputs(
            workload, _without_repeats(workload, name), inputs
        ).items():
            kept_as = reference_dtype(workload)
            kept = exact if exact.dtype == kept_as else _rounded(exact, kept_as)
            np.save(directory / f"{name}.{output}.npy", kept)


def _without_repeats(workload: Workload, name: str) -> Workload:
    """Return the workload, reduced to the different signals and channels of a case.

    The first case has all of them. The other cases of a large workload have fewer, because drawing
    all of them for each case would take longer than a search. If an output of the workload has at
    most :data:`FEW_ELEMENTS` elements, every case has all of them.
    """
    few = any(output.elements <= FEW_ELEMENTS for output in workload.outputs)
    if name == CASES[0] or workload.bytes < LARGE or few:
        return workload
    return workload.reduced_to(SIGNALS, CHANNELS)


def _exact_outputs(
    workload: Workload, distinct: Workload, inputs: Sequence[Array]
) -> dict[str, NDArray[np.float64]]:
    """Return the exact outputs for ``inputs``, the inputs of the ``distinct`` workload.

    An output of each signal is computed for the distinct signals only. An output that sums over all
    signals, such as the gradient of a weight, is computed for the whole workload: each distinct
    signal is weighted by how often it occurs.
    """
    references = operator(workload.operator).references
    if distinct == workload:
        return references(workload, *inputs)
    outputs = zip(workload.outputs, distinct.outputs, strict=True)
    whole = [output.name for output, own in outputs if output.shape == own.shape]
    exact = references(distinct, *inputs) if len(whole) < len(workload.outputs) else {}
    if whole:
        signals, known = (each.model_dump()["B"] for each in (workload, distinct))
        often = np.bincount(np.arange(signals) % known).astype(np.float64)
        weighted = (
            (array.T * often).T if argument.role == "gradient" else array
            for argument, array in zip(distinct.inputs, inputs, strict=True)
        )
        sums = references(distinct, *weighted)
        exact |= {name: sums[name] for name in whole}
    return exact


def read(workload: Workload, directory: Path) -> list[Case]:
    """Return the cases that :func:`write` wrote to the directory; their arrays are mapped from
    disk."""

    def mapped(case: str, part: str, dtype: str) -> Any:
        # bfloat16 is not a dtype of NumPy's own, so a file stores it as two bytes without a meaning
        return np.load(directory / f"{case}.{part}.npy", mmap_mode="r").view(in_numpy(dtype))

    return [
        Case(
            case,
            tuple(mapped(case, each.name, each.dtype) for each in workload.inputs),
            {
                each.name: mapped(case, each.name, reference_dtype(workload))
                for each in workload.outputs
            },
        )
        for case in CASES
    ]


def draw(workload: Workload, name: str, rng: np.random.Generator) -> tuple[Array, ...]:
    """Return the inputs of a case, in the workload's order.

    They are drawn in float32 and rounded to their dtype.

    - ``normal``: normally distributed, as most users' data is.
    - ``positive``: sums do not cancel, so rounding errors grow.
    - ``impulse``: the first input is zero except at its corners, where mistakes in padding and halo
      show. The second is at least 1 at its own corners: some outputs depend on nothing else of it,
      but the errors of transforms are relative to all of it.
    - ``decaying``: the first input is large; the second is tiny, begins with a spike and decays.
      One product dominates each sum, so other products do not average out its rounding error.
    - ``offset``: the first input is tiny, a constant with far smaller noise on it; the second is
      large.
    """
    arguments = _without_repeats(workload, name).inputs
    return tuple(
        _drawn(workload, argument, place, name, rng) for place, argument in enumerate(arguments)
    )


def _drawn(
    workload: Workload, argument: Argument, place: int, name: str, rng: np.random.Generator
) -> Array:
    """Return one input of a case. ``place`` is its position in ``workload.inputs``."""
    if name == "positive":
        values = _filled(
            argument.shape, rng, lambda own, out: own.random(out=out, dtype=np.float32)
        )
        values += np.float32(0.5)
        if place == 1:
            values *= _headroom(workload)
    elif name == "impulse" and place == 0:
        values = np.zeros(argument.shape, np.float32)
        for corner, far_ends in _corners(argument):
            values[corner] = 1.0 + far_ends
    elif name == "impulse" and place == 1:
        values = _normal(argument.shape, rng)
        for corner, _ in _corners(argument):
            drawn = values[corner]
            values[corner] = np.copysign(np.maximum(np.abs(drawn), np.float32(1)), drawn)
    elif name in ("decaying", "offset") and place < 2:
        values = _extreme(workload, argument, name, rng, is_first=place == 0)
    else:
        values = _normal(argument.shape, rng)
        if argument.role == "sums":
            values *= SUMS_STD
    if place == 0 and workload.gate_channels and name != "normal":
        _draw_gates(values[..., : workload.gate_channels], name, rng)
    return _rounded(values, argument.dtype)


def _draw_gates(gates: NDArray[np.float32], name: str, rng: np.random.Generator) -> None:
    """Fill the gates of an input: at most 1 in the case ``positive``, so that products with them
    are no larger than without; normally distributed in all others."""
    if name == "positive":
        gates /= np.float32(1.5)
    else:
        gates[...] = _normal(gates.shape, rng)


def _normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    return _filled(shape, rng, lambda own, out: own.standard_normal(out=out, dtype=np.float32))


def _filled(
    shape: tuple[int, ...],
    rng: np.random.Generator,
    fill: Callable[[np.random.Generator, NDArray[np.float32]], object],
) -> NDArray[np.float32]:
    """Return an array that ``fill(generator, piece)`` has filled piece by piece, in threads.

    Each piece has a generator of its own, so the numbers don't depend on how many threads there
    are.
    """
    values = np.empty(shape, np.float32)
    pieces = _pieces(values)
    own = rng.spawn(len(pieces)) if len(pieces) > 1 else [rng]
    in_threads(lambda at: fill(own[at], pieces[at]), range(len(pieces)))
    return values


def _rounded(values: Array, dtype: str) -> Array:
    rounded: Array = np.empty(values.shape, in_numpy(dtype))

    def round_(pair: tuple[Array, Array]) -> None:
        pair[0][...] = pair[1]

    in_threads(round_, zip(_pieces(rounded), _pieces(values), strict=True))
    return rounded


def _pieces(array: Any) -> list[Any]:
    flat = array.reshape(-1)
    return [flat[start : start + PIECE] for start in range(0, flat.size, PIECE)]


def _corners(argument: Argument) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield the index of each corner of an argument, and on how many axes it is at the far end.

    Corners are at both ends of height and width. If the argument's layout names neither, they are
    at both ends of the last axis.
    """
    rank = len(argument.shape)
    axes = [at for at, axis in enumerate(argument.layout or "") if axis in "HW"] or [rank - 1]
    for ends in np.ndindex(*(2,) * len(axes)):
        place: list[Any] = [slice(None)] * rank
        for axis, end in zip(axes, ends, strict=True):
            place[axis] = -end
        yield tuple(place), sum(ends)


def _extreme(
    workload: Workload, argument: Argument, name: str, rng: np.random.Generator, *, is_first: bool
) -> NDArray[np.float32]:
    """Return an input of the case ``decaying`` or ``offset``.

    The values are scaled so that sums are no larger than those of normal inputs, and then
    multiplied by the dtype's RANGE or divided by it.
    """
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
    else:  # the taps must not sum up to zero: then even a program in float32 would fail the check
        values += np.float32(3 / math.sqrt(workload.taps)) - values.mean()
    return values * np.float32(1 / range_of if is_first else range_of)


def _headroom(workload: Workload) -> np.float32:
    """Return the power of two, at most 1, that keeps sums of all taps within the dtype's range.

    Each of the two factors of a product is up to 1.5.
    """
    _, over = math.frexp(1.5 * 1.5 * workload.taps / float(_limits(workload).max))
    return np.float32(2.0 ** -max(0, over))


def _limits(workload: Workload) -> Any:
    """Return ``numpy.finfo`` of the workload's dtype; for bfloat16 that of float32."""
    if workload.dtype != "bfloat16":
        return np.finfo(workload.dtype)
    # bfloat16 has the exponents of float32: the same smallest number, about the same largest
    return np.finfo(np.float32)


def _is_unsuitable(workload: Workload, inputs: Sequence[Array], references: References) -> bool:
    """Return whether an output with few elements is unsuitable as a reference.

    An output is unsuitable if all of its elements are far smaller than such sums usually are, or
    below the normal range of the dtype. The error is relative to the largest element, so correct
    programs would fail on such a draw.
    """
    few = [output.name for output in workload.outputs if output.elements <= FEW_ELEMENTS]
    if not few:
        return False
    squares = (
        np.full_like(array, LINEAR_AT) if argument.role == "sums" else array.astype(np.float64) ** 2
        for argument, array in zip(workload.inputs, inputs, strict=True)
    )
    usual, exact = references(workload, *squares), references(workload, *inputs)
    return any(_vanishes(workload, usual[name], exact[name]) for name in few)


def _vanishes(workload: Workload, squares: NDArray[Any], exact: NDArray[Any]) -> bool:
    """Return whether all elements of one output are too small, given the sums of its terms'
    squares."""
    deviation = math.sqrt(squares.max())
    if not deviation:  # no tap of a strided or dilated kernel meets an impulse
        return False
    least = max(deviation / 2, float(_limits(workload).smallest_normal))
    return bool(np.abs(exact).max() < least)
