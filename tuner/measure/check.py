"""Whether a candidate's numbers are right, which is checked before it is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from templates.ceil_div import ceil_div
from tuner.measure.cases import Array, Case

CHUNK = 2**16


class WrongAnswer(Exception):
    """An output differs from its reference by more than the workload's max_error."""


def check(
    errors: Callable[[Case], Mapping[str, float]],
    cases: Sequence[Case],
    max_error: float,
) -> float:
    """The largest error over the cases. ``errors(case)`` is max|y - ref| / max|ref| of each output
    for it, by the outputs' names.

    Raises WrongAnswer at the first case that exceeds ``max_error`` or leaves a NaN; it names the
    output if there are several.
    """
    worst = 0.0
    for case in cases:
        found = errors(case)
        for name, error in found.items():
            if not error <= max_error:
                which = f" of {name}" if len(found) > 1 else ""
                raise WrongAnswer(
                    f"error {error:.3g}{which} on {case.name} input, allowed {max_error:.3g}"
                )
            worst = max(worst, error)
    return worst


def relative_error(y: Array, reference: Array, scale: float | None = None) -> float:
    """max|y - ref| / max|ref| on the host; NaN if y holds one. A shorter reference stands for y
    again and again.

    ``scale`` is max|ref| if it is known already.
    """
    flat, exact = y.reshape(-1), reference.reshape(-1)
    if len(exact) < min(CHUNK, len(flat)):
        exact = np.tile(exact, ceil_div(min(CHUNK, len(flat)), len(exact)))

    def largest_difference(start: int) -> float:
        at = start % len(exact)
        known = exact[at : at + CHUNK][: len(flat) - start]
        difference = np.subtract(flat[start : start + len(known)], known, dtype=np.float64)
        return float(np.abs(difference, out=difference).max())

    starts = [
        turn + at
        for turn in range(0, len(flat), len(exact))
        for at in range(0, min(len(exact), len(flat) - turn), CHUNK)
    ]
    largest = float(np.max(list(_threads().map(largest_difference, starts))))
    return relative(largest, float(np.abs(reference).max()) if scale is None else scale)


def relative(largest: float, scale: float) -> float:
    """max|y - ref| / max|ref|. If the reference is all zero, y must be zero, too."""
    if scale == 0:
        return 0.0 if largest == 0 else float("inf")
    return largest / scale


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor()
