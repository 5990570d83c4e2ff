"""Epilogue in float64, for references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.epilogue import WithEpilogue

Array = NDArray[np.float64]


def apply_epilogue(
    workload: WithEpilogue, sums: Array, added: tuple[NDArray[np.floating[Any]], ...], axis: int
) -> Array:
    """Return the output for exact sums. ``added`` are the bias and the residual, if there are any.

    ``axis`` is the axis of the sums' channels, or their rank if there is only one channel.
    """
    rest = list(added)
    if workload.bias:
        behind = (1,) * max(0, sums.ndim - axis - 1)
        sums = sums + rest.pop(0).astype(np.float64).reshape(-1, *behind)
    if workload.residual:
        sums = sums + rest.pop(0).astype(np.float64)
    return _ACTIVATIONS[workload.activation](sums)


def gradient_of_sums(
    workload: WithEpilogue, gradient: NDArray[np.floating[Any]], *sums: NDArray[np.floating[Any]]
) -> Array:
    """Return the gradient of the sums: the activation's derivative at them, times ``gradient``.

    ``gradient`` is that of the activation's result. ``sums`` are given if there is an activation.
    At a point without a derivative the value is PyTorch's; only for hardswish at -3 it is 0.
    """
    exact = gradient.astype(np.float64)
    return exact * _DERIVATIVES[workload.activation](sums[0].astype(np.float64)) if sums else exact


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


def _sigmoid(v: Array) -> Array:
    result: Array = 1 / (1 + np.exp(np.minimum(-v, 700.0)))
    return result


def _gelu_derivative(v: Array) -> Array:
    from scipy.special import erfc

    below: Array = erfc(-v * 0.5**0.5) / 2
    return below + v * np.exp(-v * v / 2) / math.sqrt(2 * math.pi)


def _steps(v: Array, low: float, high: float, between: Array, above: float) -> Array:
    """Return 0 up to ``low``, ``above`` from ``high`` on, else (also for a NaN) ``between``."""
    return np.where(v <= low, 0.0, np.where(v >= high, above, between))


_DERIVATIVES: dict[str, Callable[[Array], Array]] = {
    "none": np.ones_like,
    "relu": lambda v: np.where(v <= 0, 0.0, 1.0),
    "relu6": lambda v: _steps(v, 0.0, 6.0, np.ones_like(v), 0.0),
    "silu": lambda v: _sigmoid(v) * (1 + v * (1 - _sigmoid(v))),
    "gelu": _gelu_derivative,
    "hardswish": lambda v: _steps(v, -3.0, 3.0, v / 3 + 0.5, 1.0),
}
