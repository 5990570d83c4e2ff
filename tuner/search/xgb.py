"""AutoTVM's cost model: XGBoost learns to rank configurations from what was measured."""

from typing import Any

from tuner.search.features import FeatureTable
from tuner.search.space import Featurize, SearchSpace
from tuner.search.spread import spread
from tuner.search.strategy import Strategy

LEARN_FROM = 16
"""Results before the model is trusted."""
SCORE_ALL = 20_000
"""A larger space is scored by a pool: this many kept, and so many new ones each time."""
POOL, FRESH = 4_000, 200
STRAYS, NEIGHBOURS, BEST_FEW = 0.1, 0.25, 4
"""Shares of a batch: at random; among the neighbours of the best few measured."""
ROUNDS = 50
PARAMS: dict[str, Any] = {
    "objective": "rank:pairwise",
    "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": 8,
    "max_depth": 4,
    "eta": 0.3,
    "min_child_weight": 0.1,
    "nthread": 1,
    "verbosity": 0,
}


class Xgb(Strategy):
    """Spread at first; then the best by predicted rank, neighbours of the best, and strays."""

    name = "xgb"

    def __init__(self, space: SearchSpace, featurize: Featurize, seed: int | None) -> None:
        super().__init__(space, featurize, seed)
        self._table = FeatureTable(space, featurize)
        self._seed = int(self.rng.integers(2**31))
        self._pool: set[int] = set()

    def propose(self, count: int) -> list[int]:
        times = {time for time in self.results.values() if time is not None}
        if len(self.results) < LEARN_FROM or not times:
            return spread(self.space, self._table, self.rng, count, self.seen)
        around = self._around_the_best()
        candidates = sorted(self._candidates() | around)
        scores = dict(zip(candidates, self._scores(candidates), strict=True))
        ranking = sorted(candidates, key=lambda index: -scores[index])
        near = [index for index in ranking if index in around][: round(count * NEIGHBOURS)]
        self._pool = set(ranking[:POOL])
        strays = int(self.rng.binomial(count, STRAYS))
        chosen = dict.fromkeys(near)
        chosen.update(dict.fromkeys(index for index in ranking if index not in chosen))
        kept = list(chosen)[: count - strays]
        return kept + self.space.sample(self.rng, count - len(kept), {*self.seen, *kept})

    def _around_the_best(self) -> set[int]:
        measured = [(time, index) for index, time in self.results.items() if time is not None]
        few = [index for _, index in sorted(measured)[:BEST_FEW]]
        return {near for index in few for near in self.space.neighbours(index)} - self.seen

    def _candidates(self) -> set[int]:
        """All that are left; of a large space the best of the last pool and some new ones."""
        if len(self.space) <= SCORE_ALL:
            return set(range(len(self.space))) - self.seen
        fresh = self.space.sample(self.rng, FRESH if self._pool else POOL, self.seen)
        return (self._pool | set(fresh)) - self.seen

    def _scores(self, indices: list[int]) -> list[float]:
        """Higher for what the model takes to be faster."""
        import xgboost

        told = list(self.results)
        best = min(time for time in self.results.values() if time is not None)
        speeds = [0.0 if time is None else best / time for time in self.results.values()]
        data = xgboost.DMatrix(self._table.rows(told), label=speeds, nthread=1)
        data.set_group([len(told)])
        model = xgboost.train(PARAMS | {"seed": self._seed}, data, ROUNDS)
        scores: list[float] = model.inplace_predict(self._table.rows(indices)).tolist()
        return scores
