"""A search that measures parts of a space: a few values of each knob in all combinations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

from templates.spaces.search_space import SearchSpace
from tuner.search.strategy import Strategy

EVEN = 1 / 4
"""The rate at which a knob gets its values is at least this share of any other knob's rate."""


class Subgrids(Strategy):
    """Proposes the configurations of a small part of the space first, then those that larger parts
    add, until it has proposed all.

    The first thousand trials of a large space therefore lie close together, and most have
    neighbours among themselves. The order of a knob's values is random. Templates take turns.
    """

    name = "subgrids"
    _order: Iterator[int] | None = None

    def propose(self, count: int) -> list[int]:
        if self._order is None:
            parts = [_growing(self.space, part, self.rng) for part in self.space.parts if part]
            self._order = iter([i for i in chain(*zip_longest(*parts)) if i is not None])
        proposed: list[int] = []
        while len(proposed) < count:
            index = next(self._order)
            if index not in self.seen:
                proposed.append(index)
        return proposed


def _growing(space: SearchSpace, part: range, rng: np.random.Generator) -> list[int]:
    """Return the indices of a template's configurations in the order of proposal.

    Each knob gets its values one after the other, at a random rate. A configuration is proposed
    when each knob has got its value.
    """
    configs = [space[index] for index in part]
    comes = np.zeros(len(configs))
    for name in dict.fromkeys(chain(*configs)):
        values = [json.dumps(config.get(name)) for config in configs]
        comes = np.maximum(comes, _arrivals(values, rng) * EVEN ** rng.random())
    return [part[place] for place in np.lexsort((rng.random(len(configs)), comes)).tolist()]


def _arrivals(values: list[str], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return when each value comes, a number in [0, 1), in a random order of distinct values."""
    distinct = sorted(set(values))
    order = dict(zip(distinct, rng.permutation(len(distinct)) / len(distinct), strict=True))
    return np.array([order[value] for value in values])
