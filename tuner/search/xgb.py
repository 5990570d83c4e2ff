"""Search by AutoTVM's cost model: XGBoost learns from measurements to rank configurations. If there
is a ranker that learnt from other shapes, the model learns what the ranker misjudges."""

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.spaces.search_space import SearchSpace
from tuner.search.diversify import spread_neighbours
from tuner.search.expected import Expected
from tuner.search.features import FeatureTable, Featurize, Rows
from tuner.search.seeds import seeds
from tuner.search.spread import spread
from tuner.search.strategy import Earlier, Prior, Strategy
from tuner.search.turns import turns

LEARN_FROM = 16
"""How many results there must be before the model is used, if there is no prior."""
SCORE_ALL = 4_000
"""A template with more configurations is not scored as a whole, but by a pool of some of them."""
POOL, FRESH = 1_000, 100
"""How many configurations a pool keeps and begins with, and how many random ones join it in each
batch."""
LEADERS = 6
"""How many of a pool's best predicted configurations have their neighbours added to it."""
STRAYS, NEIGHBOURS, EACH = 0.05, 0.25, 0.25
"""Shares of a batch: random configurations; neighbours of the best measured; configurations of each
template in turn. Without the last, a template whose first trials are unlucky would never be tried
again."""
EACH_FIRST = 0.5
"""EACH in a first batch by a ranker, which may misjudge a whole template."""
EACH_WARM = 0.1
"""EACH if other workloads' trials say how fast each template is."""
LEAST_WORTH = 1 / 32
"""The least number of a slow template's turns, as a share of those of the fastest template."""
BEST_FEW, BEST_OF_EACH = 4, 2
"""How many of the best measured configurations have their neighbours scored: of all, and of each
template."""
SEEDS = 0.5
"""The share of starts and seeds in a batch, as long as there are some that were not tried."""
EACH_SEEDS = 4
"""How many seeds each other workload gives."""
EARLIER, FADES = 1.0, 32
"""The weight of another workload's trials, and after how many results of this workload it is
halved."""
ROUNDS = 50
"""How many trees the model has."""
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
    """Proposes starts and seeds first, and configurations that are spread over all templates or
    that the prior expects to be fast. Then each batch contains the best predicted configurations,
    neighbours of the best measured, some configurations of each template, and random ones."""

    name = "xgb"

    def __init__(
        self,
        space: SearchSpace,
        featurize: Featurize,
        seed: int | None,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(space, featurize, seed, prior)
        self._table = FeatureTable(space, featurize)
        self._expected = Expected(space, prior)
        self._seed = int(self.rng.integers(2**31))
        self._parts = [part for part in space.parts if part]
        self._pools: dict[range, list[int]] = {}
        self._earlier: list[tuple[list[int], Sequence[Earlier]]] = []
        self._seeds: list[int] = []

    def warm_up(self, workloads: Sequence[Sequence[Earlier]]) -> bool:
        groups = [trials for trials in workloads if any(trial.time_us for trial in trials)]
        for trials in groups:
            places = [self._table.add(trial.config, trial.derived) for trial in trials]
            self._earlier.append((places, trials))
        self._seeds = seeds(groups, EACH_SEEDS)
        return bool(groups)

    def propose(self, count: int) -> list[int]:
        if not self._can_rank():
            return self._first_batch(count)
        around = self._around(range(len(self.space)), BEST_FEW)
        candidates = {part: sorted(self._candidates(part, around)) for part in self._parts}
        scores = self._scores([index for part in candidates.values() for index in part])
        ranked = {part: sorted(own, key=lambda i: -scores[i]) for part, own in candidates.items()}
        ranking = self._ranking(scores)
        self._pools = {part: own[:POOL] for part, own in ranked.items()}
        strays = int(self.rng.binomial(count, STRAYS))
        chosen = self._next_seeds(count)
        chosen += [index for index in ranking if index in around][: round(count * NEIGHBOURS)]
        each = EACH_WARM if self._earlier else EACH if self.results else EACH_FIRST
        chosen += self._best_of_each(round(count * each), ranked, set(chosen))
        chosen = list(dict.fromkeys([*chosen, *ranking]))[: count - strays]
        chosen.sort(key=lambda index: -scores.get(index, math.inf))  # a job may end within a batch
        return chosen + self._strays(count - len(chosen), {*self.seen, *chosen})

    def _ranking(self, scores: dict[int, float]) -> list[int]:
        """Return the scored indices, best first.

        In a first batch with a prior this is the prior's order, beginning with configurations that
        are no neighbours of each other. It is not known yet whether the trials of other workloads
        hold for this one."""
        if self.results or self.prior is None:
            return sorted(scores, key=lambda index: -scores[index])
        expected = dict(zip(scores, self._expected.scores([*scores]).tolist(), strict=True))
        return spread_neighbours(
            sorted(scores, key=lambda index: expected[index]), self.space.neighbours
        )

    def _can_rank(self) -> bool:
        """Return whether the model can be used: there is a prior, or there are enough results. With
        few results many configurations have equal scores, and their order in the space decides."""
        if self.prior is not None:
            return True
        past = (trial.time_us for _, trials in self._earlier for trial in trials)
        times = [*self.results.values(), *past]
        return len(times) >= LEARN_FROM and any(times)

    def _first_batch(self, count: int) -> list[int]:
        """Return seeds, and configurations spread over all templates."""
        chosen = self._next_seeds(count)
        taken = {*self.seen, *chosen}
        shares = Counter(turns(count - len(chosen), self._tried(), self._left(taken)))
        return chosen + [
            index
            for part, share in shares.items()
            for index in spread(self.space, self._table, self.rng, share, taken, part)
        ]

    def _next_seeds(self, count: int) -> list[int]:
        """Return untried starts, and then untried seeds, at most their share of a batch of
        ``count``."""
        left = [i for i in dict.fromkeys([*self.starts, *self._seeds]) if i not in self.seen]
        return left[: math.ceil(count * SEEDS)]

    def _best_of_each(
        self, count: int, ranked: dict[range, list[int]], chosen: set[int]
    ) -> Iterator[int]:
        """Return the best predicted indices outside ``chosen``, ``count`` in all, from the
        templates with the fewest trials for their worth. ``ranked`` has each template's indices,
        best first."""
        queues = {part: deque(i for i in own if i not in chosen) for part, own in ranked.items()}
        left = {part: len(queue) for part, queue in queues.items()}
        shared = turns(count, self._tried(), left, self._worth())
        return (queues[part].popleft() for part in shared)

    def _worth(self) -> dict[range, float]:
        """Return the worth of each template. A template that is twice as slow as the fastest so far
        is worth a quarter of the fastest one's trials. A template without a time is worth as much
        as the fastest."""
        best = {part: self._fastest(part) for part in self._parts}
        least = min(best.values())
        return {
            part: max(LEAST_WORTH, (least / time_us) ** 2) if least < time_us < math.inf else 1.0
            for part, time_us in best.items()
        }

    def _strays(self, count: int, exclude: set[int]) -> list[int]:
        """Return random indices. The template is drawn first, so that a large template is drawn no
        more often than a small one."""
        drawn: list[int] = []
        while len(drawn) < count:
            left = [part for part, number in self._left({*exclude, *drawn}).items() if number]
            part = left[int(self.rng.integers(len(left)))]
            drawn += self.space.sample(self.rng, 1, {*exclude, *drawn}, part)
        return drawn

    def _candidates(self, part: range, around: set[int]) -> set[int]:
        """Return the indices of a template that are scored.

        In a small template they are all that are left. In a large one they are its last pool, the
        neighbours of the pool's best and of the best measured, and some random indices. The first
        pool comes from the prior if there is one."""
        if len(part) <= SCORE_ALL:
            return set(part) - self.seen
        pool = self._pools.get(part, [])
        if not pool and self.prior is not None:
            pool = self._expected.leading(self.rng, part)[:POOL]
        near = {near for index in pool[:LEADERS] for near in self.space.neighbours(index)}
        fresh = self.space.sample(self.rng, FRESH if pool else POOL, self.seen, part)
        known = around.intersection(part) | self._around(part, BEST_OF_EACH)
        return {*pool, *near, *fresh} - self.seen | known

    def _around(self, part: range, count: int) -> set[int]:
        """Return the untried neighbours of the ``count`` fastest measured indices in a range."""
        measured = sorted(
            (time, index)
            for index, time in self.results.items()
            if time is not None and index in part
        )
        few = [index for _, index in measured[:count]]
        return {near for index in few for near in self.space.neighbours(index)} - self.seen

    def _fastest(self, part: range) -> float:
        """Return the least time of a template in µs, infinite if none is known."""
        times = (time for index, time in self.results.items() if time and index in part)
        return min(times, default=math.inf)

    def _tried(self) -> dict[range, int]:
        """Return how many indices of each template were proposed or told."""
        return {part: sum(index in part for index in self.seen) for part in self._parts}

    def _left(self, exclude: set[int]) -> dict[range, int]:
        """Return how many indices of each template are outside ``exclude``."""
        return {part: len(part) - sum(index in part for index in exclude) for part in self._parts}

    def _scores(self, indices: list[int]) -> dict[int, float]:
        """Return the score of each index, higher for those that the model expects to be faster."""
        margins = -self._expected.scores(indices)
        if not self.results and not self._earlier:
            return dict(zip(indices, margins.tolist(), strict=True))
        told = list(self.results)
        # one call for both: a template that is met for the first time adds columns to all rows
        rows = self._table.rows([*told, *indices])
        model = self._model(rows[: len(told)], told)
        scores = model.inplace_predict(rows[len(told) :], base_margin=margins).tolist()
        return dict(zip(indices, scores, strict=True))

    def _model(self, rows: Rows, told: list[int]) -> Any:
        """Train the model: trees whose sum is added to what the prior expects.

        ``rows`` are the features of the indices ``told``. The trials of each workload are a group.
        XGBoost compares trials only within a group."""
        import xgboost

        groups = [
            (
                self._table.at(places),
                _speeds([trial.time_us for trial in trials]),
                np.array([-trial.expected for trial in trials], np.float32),
            )
            for places, trials in self._earlier
        ]
        if told:
            groups.append((rows, _speeds([*self.results.values()]), -self._expected.scores(told)))
        data = xgboost.DMatrix(
            np.concatenate([each for each, _, _ in groups]),
            label=np.concatenate([speeds for _, speeds, _ in groups]),
            base_margin=np.concatenate([margins for _, _, margins in groups]),
            nthread=1,
        )
        data.set_group([len(speeds) for _, speeds, _ in groups])
        past = EARLIER / (1 + len(told) / FADES)
        data.set_weight([past] * len(self._earlier) + [1.0] * bool(told))
        return xgboost.train(PARAMS | {"seed": self._seed}, data, ROUNDS)


def _speeds(times: Sequence[float | None]) -> NDArray[np.float64]:
    """Return each trial's speed relative to the fastest, which has 1; 0 for those that failed."""
    best = min((time for time in times if time is not None), default=1.0)
    return np.array([0.0 if time is None else best / time for time in times])
