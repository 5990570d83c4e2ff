"""Distances between curves of losses, one loss for each training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

Curves = Mapping[str, Sequence[float]]
END = 20
"""The number of steps that are a curve's end."""


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the mean over the steps of |one - other|."""
    return mean(abs(a - b) for a, b in zip(one, other, strict=True))


def distance(curve: Sequence[float], others: Curves) -> float:
    """Return the mean of a curve's distances from each of the others."""
    return mean(apart(curve, other) for other in others.values())


def own_distances(curves: Curves) -> list[float]:
    """Return the distance of each curve from the rest of the curves."""
    return [
        distance(curve, {other: each for other, each in curves.items() if other != name})
        for name, curve in curves.items()
    ]


def shift(curve: Sequence[float], others: Curves) -> float:
    """Return how much higher a curve is than the others: the mean over these and the steps."""
    return mean(curve) - mean(mean(each) for each in others.values())


def end(curve: Sequence[float]) -> float:
    """Return the mean loss of the last ``END`` steps."""
    return mean(curve[-END:])
