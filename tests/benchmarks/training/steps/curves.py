"""How far apart losses are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from statistics import mean

Curves = Mapping[str, Sequence[float]]


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The mean over the steps of |one - other|."""
    return mean(abs(a - b) for a, b in zip(one, other, strict=True))


def spread(curves: Curves) -> float:
    """The largest distance of two."""
    return max(apart(one, other) for one, other in combinations(curves.values(), 2))


def distance(ours: Curves, theirs: Curves) -> float:
    """The mean of the distances of each of ours from each of theirs."""
    return mean(apart(one, other) for one, other in product(ours.values(), theirs.values()))
