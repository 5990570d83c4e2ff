"""Parts of a space that are spaces themselves: a few values of each knob, all combinations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray

from templates.spaces.search_space import SearchSpace
from tuner.search.strategy import Strategy

EVEN = 1 / 4
"""The rate at which the slowest knob gets its values, as a share of the fastest's."""


class Subgrids(Strategy):
    """Every configuration, those of a small part first, then those that a larger part adds: the
    first thousand of a large space lie close together, so that most have neighbours among
    themselves. Which values come first is drawn. Templates take turns."""

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
    """A configuration comes when the last of its values does. Each knob gets one value after the
    other, at a rate of its own."""
    configs = [space[index] for index in part]
    comes = np.zeros(len(configs))
    for name in dict.fromkeys(chain(*configs)):
        values = [json.dumps(config.get(name)) for config in configs]
        comes = np.maximum(comes, _arrivals(values, rng) * EVEN ** rng.random())
    return [part[place] for place in np.lexsort((rng.random(len(configs)), comes)).tolist()]


def _arrivals(values: list[str], rng: np.random.Generator) -> NDArray[np.float64]:
    distinct = sorted(set(values))
    order = dict(zip(distinct, rng.permutation(len(distinct)) / len(distinct), strict=True))
    return np.array([order[value] for value in values])
