"""How far apart losses are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

Curves = Mapping[str, Sequence[float]]
END = 20
"""Steps at the end of a curve."""


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The mean over the steps of |one - other|."""
    return mean(abs(a - b) for a, b in zip(one, other, strict=True))


def distance(curve: Sequence[float], others: Curves) -> float:
    """The mean of its distances from each of the others."""
    return mean(apart(curve, other) for other in others.values())


def own_distances(curves: Curves) -> list[float]:
    """The distance of each curve from the rest of them."""
    return [
        distance(curve, {other: each for other, each in curves.items() if other != name})
        for name, curve in curves.items()
    ]


def shift(curve: Sequence[float], others: Curves) -> float:
    """By how much it lies higher than the others do, in the mean over them and the steps."""
    return mean(curve) - mean(mean(each) for each in others.values())


def end(curve: Sequence[float]) -> float:
    """The mean loss of the last steps."""
    return mean(curve[-END:])
