"""Inputs with a NaN or an infinity, and the outputs that have to stay finite beside it."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.dtypes import in_numpy
from templates.workload import Workload
from tuner.measure.cases import Array

BAD = (np.nan, np.inf, -np.inf)


def planted(workload: Workload, place: float, bad: float) -> tuple[Array, Array]:
    """Random normal tensors; the input's element at that share of its length is replaced."""
    rng = np.random.default_rng(1)
    x, w = (
        rng.standard_normal(each.shape).astype(in_numpy(each.dtype)) for each in workload.inputs
    )
    x.reshape(-1)[round(place * (x.size - 1))] = bad
    return x, w


def reached(workload: Workload, x: Array) -> NDArray[np.bool_]:
    """The outputs of which a term is not finite."""
    room = importlib.import_module(f"templates.{workload.operator}.reference")
    bad = (~np.isfinite(x)).astype(np.float64)
    terms: NDArray[Any] = room.reference(workload, bad, np.ones(workload.inputs[1].shape))
    return terms > 0.5
