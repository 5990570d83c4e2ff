"""The epilogue in float64, for references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.epilogue import WithEpilogue

Array = NDArray[np.float64]


def finished(
    workload: WithEpilogue, sums: Array, added: tuple[NDArray[np.floating[Any]], ...], axis: int
) -> Array:
    """The output for the exact sums. ``axis`` is that of their channels, or their rank if there is
    only one channel."""
    rest = list(added)
    if workload.bias:
        behind = (1,) * max(0, sums.ndim - axis - 1)
        sums = sums + rest.pop(0).astype(np.float64).reshape(-1, *behind)
    if workload.residual:
        sums = sums + rest.pop(0).astype(np.float64)
    return _ACTIVATIONS[workload.activation](sums)


def _gelu(v: Array) -> Array:
    from scipy.special import erfc

    tails: Array = v * erfc(-v * 0.5**0.5) / 2
    return tails


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "none": lambda v: v,
    "relu": lambda v: np.maximum(v, 0.0),
    "relu6": lambda v: np.clip(v, 0.0, 6.0),
    "silu": lambda v: v / (1 + np.exp(np.minimum(-v, 700.0))),
    "gelu": _gelu,
    "hardswish": lambda v: v * np.clip(v + 3, 0.0, 6.0) / 6,
}
