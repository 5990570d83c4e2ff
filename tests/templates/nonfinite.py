"""Inputs with one NaN or infinity, and the outputs that it may reach."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.dtypes import in_numpy
from templates.workload import Workload
from tuner.measure.cases import Array

BAD = (np.nan, np.inf, -np.inf)


def planted(workload: Workload, place: float, bad: float) -> tuple[Array, Array]:
    """Return a random normal input and weight, with one element of the input replaced by ``bad``.

    ``place`` says which one: 0 is the first element, 1 the last.
    """
    rng = np.random.default_rng(1)
    x, w = (
        rng.standard_normal(each.shape).astype(in_numpy(each.dtype)) for each in workload.inputs
    )
    x.reshape(-1)[round(place * (x.size - 1))] = bad
    return x, w


def reached(workload: Workload, x: Array) -> NDArray[np.bool_]:
    """Return which outputs are sums over an element of ``x`` that is not finite, in the output's
    shape."""
    room = importlib.import_module(f"templates.{workload.operator}.reference")
    bad = (~np.isfinite(x)).astype(np.float64)
    behind: Any = 0.0
    if workload.gate_channels:  # a product with a gate that is not finite is not finite
        before, behind, signal = np.split(bad, 3, axis=-1)
        gates = np.ones_like(signal)
        bad = np.concatenate([gates, gates, np.maximum(before, signal)], axis=-1)
    terms: NDArray[Any] = room.reference(workload, bad, np.ones(workload.inputs[1].shape))
    return np.maximum(terms, behind) > 0.5
