"""Are the numbers right? Asked of every candidate before it is timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from tuner.measure.cases import Case

CHUNK = 2**18


class WrongAnswer(Exception):
    """The output differs from the reference by more than the workload's max_error."""


def check(
    run: Callable[[Case], NDArray[np.float32]],
    cases: Sequence[Case],
    max_error: float,
) -> float:
    """The largest error over the cases, each max|y - ref| / max|ref|.

    Raises WrongAnswer at the first case that exceeds ``max_error`` or leaves a NaN.
    """
    worst = 0.0
    for case in cases:
        error = relative_error(run(case), case.reference)
        if not error <= max_error:
            raise WrongAnswer(f"error {error:.3g} on {case.name} input, allowed {max_error:.3g}")
        worst = max(worst, error)
    return worst


def relative_error(y: NDArray[np.float32], reference: NDArray[np.float64]) -> float:
    """max|y - ref| / max|ref|; NaN where y holds one. An all-zero reference must be met."""
    flat, exact = y.reshape(-1), reference.reshape(-1)

    def extremes(start: int) -> tuple[float, float]:
        piece = np.asarray(exact[start : start + CHUNK])
        difference = np.abs(flat[start : start + CHUNK] - piece)
        return float(difference.max()), float(np.abs(piece).max())

    with ThreadPoolExecutor() as threads:
        pieces = list(threads.map(extremes, range(0, len(flat), CHUNK)))
    differences, sizes = zip(*pieces, strict=True)
    largest, scale = float(np.max(differences)), max(sizes)
    if scale == 0:
        return 0.0 if largest == 0 else float("inf")
    return float(largest / scale)
