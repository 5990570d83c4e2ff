"""Strategies against recorded spaces: how many trials until one is within 5 % of the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import median

from tests.benchmarks.strategies.recording import Recording, load, names
from tests.benchmarks.strategies.replay import good_enough, replay, trials_to_good
from tuner import search
from tuner.job.pipeline import BATCH

SEEDS = 30
EARLIER_TRIALS = 64
"""Of an earlier job, as many as a job has by default."""
COLD = "xgb"
WARM = "xgb, warm"


@dataclass(frozen=True)
class Row:
    """One space; ``trials`` are those of each seed, ascending, by strategy."""

    name: str
    operator: str
    workload: dict[str, object]
    configurations: int
    good: int  # within 5 % of the optimum
    failed: int
    best_us: float
    median_us: float
    earlier: list[str]  # spaces that the warm search has trials of
    trials: dict[str, list[int]]

    def median(self, strategy: str) -> float:
        return median(self.trials[strategy])


def compared(name: str) -> Row:
    """All strategies on one space; the warm one knows an earlier job of each of the operator's
    other spaces."""
    here = load(name)
    others = [other for other in names() if other != name and load(other).operator == here.operator]
    seeds = range(SEEDS)
    trials = {
        strategy: [_trials(here, strategy, seed) for seed in seeds]
        for strategy in ("random", "evolutionary")
    }
    limit = good_enough(here.times)
    trials[COLD] = [_number_of_first(_cold(name, seed), limit) for seed in seeds]
    trials[WARM] = [_warm(here, others, seed) for seed in seeds]
    times = [time_us for time_us in here.times if time_us is not None]
    return Row(
        name=name,
        operator=here.operator,
        workload=here.workload,
        configurations=len(here.times),
        good=here.good,
        failed=len(here.times) - len(times),
        best_us=min(times),
        median_us=median(times),
        earlier=others,
        trials={strategy: sorted(numbers) for strategy, numbers in trials.items()},
    )


def _trials(here: Recording, name: str, seed: int) -> int:
    strategy = search.create(name, here.space, here.features, seed)
    return trials_to_good(strategy, here.times, BATCH)


def _warm(here: Recording, others: list[str], seed: int) -> int:
    strategy = search.create(COLD, here.space, here.features, seed)
    strategy.warm_up([_earlier(other, here, seed) for other in others])
    return trials_to_good(strategy, here.times, BATCH)


def _earlier(name: str, here: Recording, seed: int) -> list[search.Earlier]:
    """What a job of the other shape measured."""
    there = load(name)
    return [
        search.Earlier(
            config := there.space[index],
            there.features(config),
            time_us,
            here.space.index(config) if config in here.space else None,
        )
        for index, time_us in _cold(name, seed)[:EARLIER_TRIALS]
    ]


@cache
def _cold(name: str, seed: int) -> list[tuple[int, float | None]]:
    """A cold search's trials until one is good enough, and at least an earlier job's."""
    here = load(name)
    limit = good_enough(here.times)
    made: list[tuple[int, float | None]] = []
    found = False
    for index, time_us in replay(
        search.create(COLD, here.space, here.features, seed), here.times, BATCH
    ):
        made.append((index, time_us))
        found = found or (time_us is not None and time_us <= limit)
        if found and len(made) >= EARLIER_TRIALS:
            break
    return made


def _number_of_first(made: list[tuple[int, float | None]], limit: float) -> int:
    return next(n for n, (_, time) in enumerate(made, 1) if time is not None and time <= limit)
