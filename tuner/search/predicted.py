"""What a ranker expects to be fastest, without a measurement."""

from collections.abc import Callable, Iterable, Sequence

from templates.spaces.searched import SearchSpace
from tuner.search.features import Featurize
from tuner.search.strategy import Prior, Strategy

SCORE_ALL = 1_500
"""A template with more configurations is scored by a sample and the neighbours of its best."""
CLIMBS, LEADERS = 4, 8
APART = 8
"""So many of the first are no neighbours of each other: what a ranker does not know of one, it does
not know of its neighbours either."""


class Predicted(Strategy):
    """Asks in the order that is expected, and does not learn. Without a prior the order is a
    random one."""

    name = "predicted"

    def __init__(
        self,
        space: SearchSpace,
        featurize: Featurize,
        seed: int | None,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(space, featurize, seed, prior)
        self._ranking: list[int] | None = None

    def propose(self, count: int) -> list[int]:
        if self._ranking is None:
            self._ranking = self._ranked()
        ranking = [index for index in self._ranking if index not in self.seen][:count]
        more = self.space.sample(self.rng, count - len(ranking), {*self.seen, *ranking})
        return ranking + more

    def _ranked(self) -> list[int]:
        scores: dict[int, float] = {}
        for part in self.space.parts if self.prior is not None else ():
            if len(part) <= SCORE_ALL:
                scores |= self._expected(part)
                continue
            own = self._expected(self.space.sample(self.rng, SCORE_ALL, (), part))
            for _ in range(CLIMBS):
                leaders = sorted(own, key=lambda index: own[index])[:LEADERS]
                near = {near for index in leaders for near in self.space.neighbours(index)}
                own |= self._expected(sorted(near - own.keys()))
            scores |= own
        return apart(sorted(scores, key=lambda index: scores[index]), self.space.neighbours)

    def _expected(self, indices: Sequence[int]) -> dict[int, float]:
        if self.prior is None or not indices:
            return {}
        expected = self.prior([self.space[index] for index in indices])
        return dict(zip(indices, expected.tolist(), strict=True))


def apart(ranking: Sequence[int], neighbours: Callable[[int], Iterable[int]]) -> list[int]:
    """The same, the first of which are no neighbours of each other, as far as there are such."""
    chosen: list[int] = []
    near: set[int] = set()
    for index in ranking:
        if len(chosen) == APART:
            break
        if index not in near:
            chosen.append(index)
            near.update(neighbours(index))
    first = set(chosen)
    return chosen + [index for index in ranking if index not in first]
