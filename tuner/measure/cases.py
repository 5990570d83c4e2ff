"""The inputs every candidate is checked on, with their float64 references."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.workload import Workload

CASES = ("normal", "positive", "impulse")
FEW = 32
"""A workload with more outputs than this always has a large one."""

Array = NDArray[np.floating[Any]]
"""Of the workload's dtype."""
Reference = Callable[[Workload, Array, Array], NDArray[np.float64]]


@dataclass(frozen=True)
class Case:
    """One check: input, weight, and the exact output in float64."""

    name: str
    x: Array
    w: Array
    reference: NDArray[np.float64]

    @cached_property
    def scale(self) -> float:
        """max|ref|."""
        return float(max(self.reference.max(), -self.reference.min()))


def size(workload: Workload) -> int:
    """Bytes of the files that :func:`write` makes, but for their headers."""
    given = math.prod(workload.input_shape) + math.prod(workload.weight_shape)
    exact = math.prod(workload.output_shape) * np.dtype(np.float64).itemsize
    return len(CASES) * (given * np.dtype(workload.dtype).itemsize + exact)


def write(workload: Workload, directory: Path, seed: int) -> None:
    """Draw the inputs and work out their references, once for all processes of a job."""
    room = importlib.import_module(f"templates.{workload.operator}.reference")
    rng = np.random.default_rng(seed)
    for name in CASES:
        x, w = draw(workload, name, rng)
        while _cancels(workload, x, w, room.reference):
            x, w = draw(workload, name, rng)
        arrays = {"x": x, "w": w, "reference": room.reference(workload, x, w)}
        for part, array in arrays.items():
            np.save(directory / f"{name}.{part}.npy", array)


def read(directory: Path) -> list[Case]:
    """The cases as written, mapped from disk."""
    return [
        Case(
            name,
            *(
                np.load(directory / f"{name}.{part}.npy", mmap_mode="r")
                for part in ("x", "w", "reference")
            ),
        )
        for name in CASES
    ]


def draw(workload: Workload, name: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """Input and weight of a case. ``normal`` is what users have; ``positive`` sums without
    cancelling, where rounding errors grow; ``impulse`` is zero but for the corners, where padding
    and halo go wrong. They are drawn in float32 and rounded to the workload's dtype."""
    x, w = _drawn(workload, name, rng)
    if name == "positive":
        w *= _headroom(workload)
    return x.astype(workload.dtype), w.astype(workload.dtype)


def _drawn(
    workload: Workload, name: str, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    shape, w_shape = workload.input_shape, workload.weight_shape
    if name == "positive":
        half = np.float32(0.5)
        return rng.random(shape, np.float32) + half, rng.random(w_shape, np.float32) + half
    w = rng.standard_normal(w_shape, np.float32)
    if name == "normal":
        return rng.standard_normal(shape, np.float32), w
    x = np.zeros(shape, np.float32)
    borders = min(2, x.ndim)  # the two last axes of an image, the only one of a signal
    for ends in np.ndindex(*(2,) * borders):
        x[(..., *(-end for end in ends))] = 1.0 + sum(ends)
    return x, w


def _headroom(workload: Workload) -> np.float32:
    """The power of two that keeps sums of all taps, of factors up to 1.5 each, within the dtype."""
    _, over = math.frexp(1.5 * 1.5 * workload.taps / float(np.finfo(workload.dtype).max))
    return np.float32(2.0 ** -max(0, over))


def _cancels(workload: Workload, x: Array, w: Array, reference: Reference) -> bool:
    """Whether every output is far smaller than such sums usually are, or below the normal range of
    the dtype. The error is relative to the largest output, so an unlucky draw for a workload with
    few outputs would fail right programs."""
    if math.prod(workload.output_shape) > FEW:
        return False
    deviation = math.sqrt(reference(workload, x**2, w**2).max())
    least = max(deviation / 2, float(np.finfo(workload.dtype).smallest_normal))
    return bool(np.abs(reference(workload, x, w)).max() < least)
