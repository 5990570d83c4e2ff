"""The inputs every candidate is checked on, with their float64 references."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from templates.workload import Workload

CASES = ("normal", "positive", "impulse")


@dataclass(frozen=True)
class Case:
    """One check: input, weight, and the exact output in float64."""

    name: str
    x: NDArray[np.float32]
    w: NDArray[np.float32]
    reference: NDArray[np.float64]


def write(workload: Workload, directory: Path, seed: int) -> None:
    """Draw the inputs and work out their references, once for all processes of a job."""
    rng = np.random.default_rng(seed)
    for name in CASES:
        x, w = draw(workload, name, rng)
        room = importlib.import_module(f"templates.{workload.operator}.reference")
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


def draw(
    workload: Workload, name: str, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Input and weight of a case. ``normal`` is what users have; ``positive`` sums without
    cancelling, where rounding errors grow; ``impulse`` is zero but for the corners, where padding
    and halo go wrong."""
    shape, w_shape = workload.input_shape, workload.weight_shape
    if name == "positive":
        return _float32(rng.uniform(0.5, 1.5, shape)), _float32(rng.uniform(0.5, 1.5, w_shape))
    w = _float32(rng.standard_normal(w_shape))
    if name == "normal":
        return _float32(rng.standard_normal(shape)), w
    x = np.zeros(shape, np.float32)
    borders = min(2, x.ndim)  # the two last axes of an image, the only one of a signal
    for ends in np.ndindex(*(2,) * borders):
        x[(..., *(-end for end in ends))] = 1.0 + sum(ends)
    return x, w


def _float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return values.astype(np.float32)
