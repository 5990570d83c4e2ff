"""Evolutionary search: the fastest configurations are crossed and mutated, without a model."""

from collections.abc import Sequence
from typing import Any

from templates.spaces.search_space import SearchSpace
from tuner.search.features import FeatureTable, Featurize
from tuner.search.seeds import seeds
from tuner.search.spread import spread
from tuner.search.strategy import Earlier, Prior, Strategy
from tuner.search.turns import turns

FOUNDERS = 16
"""How many results there must be before the first children."""
POPULATION = 24
"""How many of the fastest measured configurations may be parents."""
TOURNAMENT = 3
"""How many configurations are drawn from the population for each parent. The fastest becomes the
parent."""
CROSSED, MUTATED, STRAYS = 0.5, 0.7, 0.1
"""Shares of children that have two parents, of children with a changed knob, and of random
configurations."""
ATTEMPTS = 20
"""How many attempts at a new and valid child are made before a configuration is drawn at random."""
EACH_SEEDS = 4
"""How many seeds each other workload gives."""


class Evolutionary(Strategy):
    """Proposes seeds and configurations spread over all templates at first, then children of the
    fastest. A child has the knobs of one parent or of two, and may be replaced by a neighbour."""

    name = "evolutionary"

    def __init__(
        self,
        space: SearchSpace,
        featurize: Featurize,
        seed: int | None,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(space, featurize, seed, prior)
        self._table = FeatureTable(space, featurize)
        self._parts = [part for part in space.parts if part]
        self._seeds: list[int] = []

    def warm_up(self, workloads: Sequence[Sequence[Earlier]]) -> bool:
        self._seeds = seeds(workloads, EACH_SEEDS)
        return bool(self._seeds)

    def propose(self, count: int) -> list[int]:
        chosen = [index for index in self._seeds if index not in self.seen][:count]
        fastest = sorted((t, i) for i, t in self.results.items() if t is not None)
        population = [index for _, index in fastest[:POPULATION]]
        if len(self.results) < FOUNDERS or not population:
            return chosen + self._founders(count - len(chosen), {*self.seen, *chosen})
        while len(chosen) < count:
            taken = {*self.seen, *chosen}
            child = None if self.rng.random() < STRAYS else self._child(population, taken)
            chosen += self.space.sample(self.rng, 1, taken) if child is None else [child]
        return chosen

    def _founders(self, count: int, taken: set[int]) -> list[int]:
        """Return ``count`` indices outside ``taken``, spread over templates and their spaces."""
        tried = {part: sum(index in part for index in taken) for part in self._parts}
        left = {part: len(part) - tried[part] for part in self._parts}
        given = turns(count, tried, left)
        return [
            index
            for part in dict.fromkeys(given)
            for index in spread(self.space, self._table, self.rng, given.count(part), taken, part)
        ]

    def _child(self, population: list[int], taken: set[int]) -> int | None:
        """Return a child outside ``taken``, or None if all ATTEMPTS fail."""
        for _ in range(ATTEMPTS):
            parent = self._parent(population)
            child: int | None = parent
            if self.rng.random() < CROSSED:
                child = self._crossed(self.space[parent], self.space[self._parent(population)])
            if child is not None and (child in taken or self.rng.random() < MUTATED):
                child = self._neighbour(child)
            if child is not None and child not in taken:
                return child
        return None

    def _parent(self, population: list[int]) -> int:
        """Return the fastest of a few members of the population, which is sorted by time."""
        return population[int(self.rng.integers(len(population), size=TOURNAMENT).min())]

    def _crossed(self, one: dict[str, Any], other: dict[str, Any]) -> int | None:
        """Return the index of ``one`` with about half of its knobs taken from ``other``; None if
        that is no valid configuration, or if their templates differ."""
        if one["template"] != other["template"]:
            return None
        shared = [name for name in one if name in other and self.rng.random() < 0.5]
        child = one | {name: other[name] for name in shared}
        return self.space.index(child) if child in self.space else None

    def _neighbour(self, index: int) -> int | None:
        """Return a random neighbour of a configuration, or None if it has none."""
        near = self.space.neighbours(index)
        return near[int(self.rng.integers(len(near)))] if near else None
