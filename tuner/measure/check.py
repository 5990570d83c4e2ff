"""Checking a candidate's outputs against the references, before it is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from templates.ceil_div import ceil_div
from tuner.measure.cases import Array, Case

CHUNK = 2**16
"""Elements that one thread compares at a time."""


class WrongAnswer(Exception):
    """An output differs from its reference by more than the workload's max_error."""


def check(
    errors: Callable[[Case], Mapping[str, float]],
    cases: Sequence[Case],
    max_error: float,
) -> float:
    """Return the largest error over the cases.

    ``errors(case)`` computes the outputs for a case and returns max|y - ref| / max|ref| of each, by
    the outputs' names. Raises WrongAnswer at the first case whose error exceeds ``max_error`` or is
    NaN; the message names the output if there are several.
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
    """Return max|y - ref| / max|ref|, computed on the host; NaN if y holds a NaN.

    A reference that is shorter than y is repeated to its length. ``scale`` is max|ref| if the
    caller knows it already.
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
    """Return max|y - ref| / max|ref|, given both maxima.

    If the reference is zero everywhere, the error is 0 if y is zero, too, else infinity.
    """
    if scale == 0:
        return 0.0 if largest == 0 else float("inf")
    return largest / scale


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor()
