"""A prior over the configurations of a space, computed once for each of them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from templates.spaces.search_space import SearchSpace
from tuner.search.strategy import Prior

SCORE_ALL = 1_500
"""A template with more configurations is not scored as a whole, but by a sample and the neighbours
of the sample's best."""
CLIMBS, LEADERS = 4, 8
"""How often neighbours are added to the sample, and how many of its best have their neighbours
added."""


class Expected:
    """A prior for the indices of a space: smaller for faster configurations. If there is no prior,
    it is 0 for all."""

    def __init__(self, space: SearchSpace, prior: Prior | None) -> None:
        self._space, self._prior = space, prior
        self._known: dict[int, float] = {}

    def scores(self, indices: Sequence[int]) -> NDArray[np.float32]:
        """Return what the prior expects of each index, an array of shape (len(indices),)."""
        if self._prior is None:
            return np.zeros(len(indices), np.float32)
        new = [index for index in dict.fromkeys(indices) if index not in self._known]
        if new:
            expected = self._prior([self._space[index] for index in new])
            self._known |= zip(new, expected.tolist(), strict=True)
        return np.array([self._known[index] for index in indices], np.float32)

    def leading(self, rng: np.random.Generator, part: range) -> list[int]:
        """Return indices of a template, the fastest expected first. ``part`` is the template's
        range. A small template has all indices in the list, a large one those that were scored."""
        if len(part) <= SCORE_ALL:
            return self._ranked(part)
        found = self._ranked(self._space.sample(rng, SCORE_ALL, (), part))
        for _ in range(CLIMBS):
            near = {near for index in found[:LEADERS] for near in self._space.neighbours(index)}
            found = self._ranked(sorted(near.union(found)))
        return found

    def _ranked(self, indices: Sequence[int]) -> list[int]:
        order = np.argsort(self.scores(indices), kind="stable")
        return [indices[place] for place in order.tolist()]
