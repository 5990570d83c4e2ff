"""Compare search strategies on recorded spaces: the number of trials until one is within 5 % of the
optimum, and the distance of the best from the optimum after each trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from statistics import median

import numpy as np

from tests.benchmarks.strategies.rankers import prior_of, ranker_without
from tests.benchmarks.strategies.recording import Known
from tests.benchmarks.strategies.replay import good_enough, replay
from tests.benchmarks.strategies.shapes import CHOSEN_ON, JUDGED_ON, recorded
from tuner import search
from tuner.job.pipeline import BATCH
from tuner.plan.warm_start import MAX_DISTANCE, WORKLOADS, distance

SEEDS = 30
MOST = 64
"""The number of trials of a curve."""
EARLIER_TRIALS = 64
"""The number of trials of an earlier job, the default of a job."""
ALONE = "xgb, no ranker"
ALONE_WARM = "xgb, no ranker, warm"
GUIDED = "xgb"
WARM = "xgb, warm"

Trials = list[tuple[int, float | None]]


@dataclass(frozen=True)
class Row:
    """The results on one space, by strategy.

    ``trials`` has each seed's number of trials until one is within 5 % of the optimum, ascending.
    ``regret`` has the best time after each trial over the optimum, its geometric mean over the
    seeds. ``judged`` is False for spaces that were used to choose constants or rankers.
    """

    name: str
    kind: str
    judged: bool
    operator: str
    workload: dict[str, object]
    configurations: int
    good: int  # within 5 % of the optimum
    failed: int
    best_us: float
    median_us: float
    earlier: list[str]  # spaces that the warm search has trials of
    trials: dict[str, list[int]]
    regret: dict[str, list[float]]

    def median(self, strategy: str) -> float:
        """Return the number of trials that a strategy needs, the median over the seeds."""
        return median(self.trials[strategy])

    def ninth(self, strategy: str) -> int:
        """Return the number of trials that is enough for nine of ten seeds."""
        return self.trials[strategy][round(0.9 * (len(self.trials[strategy]) - 1))]


def compared(
    kind: str, name: str, strategies: Sequence[str] = (), seeds: int = SEEDS, most: int = MOST
) -> Row:
    """Replay strategies on one space and return its row. Without ``strategies``, replay all.

    Warm strategies are left out if no other shape is near enough.
    """
    here = recorded(kind, name)
    earlier = _others(kind, name)
    asked = strategies or _STRATEGIES
    made = {
        strategy: [
            _found(here, _STRATEGIES[strategy](kind, name, seed), most) for seed in range(seeds)
        ]
        for strategy in asked
        if earlier or strategy not in (WARM, ALONE_WARM)
    }
    times = [time_us for time_us in here.times if time_us is not None]
    limit, best = good_enough(here.times), min(times)
    return Row(
        name=name,
        kind=kind,
        judged=name in JUDGED_ON[kind],
        operator=here.operator,
        workload=here.workload,
        configurations=len(here.times),
        good=here.good,
        failed=len(here.times) - len(times),
        best_us=best,
        median_us=median(times),
        earlier=earlier,
        trials={
            strategy: sorted(_number_of_first(run, limit) for run in runs)
            for strategy, runs in made.items()
        },
        regret={
            strategy: _curve([_bests(run, best, most) for run in runs])
            for strategy, runs in made.items()
        },
    )


def _others(kind: str, name: str) -> list[str]:
    """Return the names of the shapes from which a job would learn, nearest first. They have the
    same operator and were recorded on the same device."""
    shapes, here = CHOSEN_ON[kind] | JUDGED_ON[kind], recorded(kind, name)
    apart = {
        other: distance(here.shape, there.shape)
        for other in shapes
        if other != name
        and (there := recorded(kind, other)).operator == here.operator
        and there.machine == here.machine
    }
    near = [other for other, away in apart.items() if away <= MAX_DISTANCE]
    return sorted(near, key=apart.__getitem__)[:WORKLOADS]


def _plain(strategy: str) -> Callable[[str, str, int], search.Strategy]:
    def create(kind: str, name: str, seed: int) -> search.Strategy:
        here = recorded(kind, name)
        return search.create(strategy, here.space, here.features, seed)

    return create


def _guided(kind: str, name: str, seed: int) -> search.Strategy:
    here = recorded(kind, name)
    return search.create(search.DEFAULT, here.space, here.features, seed, _prior(kind, name))


def _warm(
    create: Callable[[str, str, int], search.Strategy],
) -> Callable[[str, str, int], search.Strategy]:
    """Return a function that creates the same strategy and tells it an earlier job of each shape
    from which a job would learn."""

    def warmed(kind: str, name: str, seed: int) -> search.Strategy:
        strategy = create(kind, name, seed)
        others = _others(kind, name)
        strategy.warm_up([_earlier(kind, other, name, seed, strategy.prior) for other in others])
        return strategy

    return warmed


_STRATEGIES: dict[str, Callable[[str, str, int], search.Strategy]] = {
    "random": _plain("random"),
    "evolutionary": _plain("evolutionary"),
    ALONE: _plain(search.DEFAULT),
    ALONE_WARM: _warm(_plain(search.DEFAULT)),
    GUIDED: _guided,
    WARM: _warm(_guided),
}


@cache
def _prior(kind: str, name: str) -> search.Prior:
    return prior_of(recorded(kind, name))


@cache
def _expected_there(kind: str, there: str, here: str) -> list[float]:
    """Return the scores of all configurations of the shape ``there``, from a ranker that has not
    learnt from shapes like ``here``."""
    other = recorded(kind, there)
    ranker = ranker_without(kind, recorded(kind, here).shape)
    expected = ranker.expected(other.shape, other.limits, other.features, list(other.space))
    return [float(each) for each in expected]


def _earlier(
    kind: str, name: str, here: str, seed: int, prior: search.Prior | None
) -> list[search.Earlier]:
    """Return the trials of an earlier job of the shape ``name``, in the form in which a strategy
    for the shape ``here`` is told them."""
    there, space = recorded(kind, name), recorded(kind, here).space
    expected = [0.0] * len(there.times) if prior is None else _expected_there(kind, name, here)
    return [
        search.Earlier(
            config := there.space[index],
            there.features(config),
            time_us,
            space.index(config) if config in space else None,
            expected[index],
        )
        for index, time_us in _earlier_job(kind, name, seed)
    ]


@cache
def _earlier_job(kind: str, name: str, seed: int) -> Trials:
    """Return the trials of an earlier job, which began without any knowledge."""
    there = recorded(kind, name)
    strategy = _STRATEGIES[ALONE](kind, name, seed)
    made = replay(strategy, there.times, BATCH)
    return [trial for trial, _ in zip(made, range(EARLIER_TRIALS), strict=False)]


def _found(here: Known, strategy: search.Strategy, most: int) -> Trials:
    """Return a search's trials until one is the optimum, or until there are ``most`` trials and one
    of them is within 5 % of the optimum."""
    limit, best = good_enough(here.times), min(time for time in here.times if time is not None)
    made: Trials = []
    least = np.inf
    for index, time_us in replay(strategy, here.times, BATCH):
        made.append((index, time_us))
        least = min(least, time_us or np.inf)
        if least == best or (least <= limit and len(made) >= most):
            break
    return made


def _bests(made: Trials, best: float, most: int) -> list[float]:
    """Return, for each of ``most`` trials, the best time so far over the optimum."""
    found = [*accumulate((time_us or np.inf for _, time_us in made), min)]
    found += [found[-1]] * (most - len(found))
    return [time_us / best for time_us in found[:most]]


def _curve(runs: list[list[float]]) -> list[float]:
    return [round(float(each), 4) for each in np.exp(np.log(runs).mean(axis=0))]


def _number_of_first(made: Trials, limit: float) -> int:
    return next(n for n, (_, time) in enumerate(made, 1) if time is not None and time <= limit)
