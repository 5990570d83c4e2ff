"""Rankers judged on shapes that they have not learnt from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import templates
from templates.limits import DeviceLimits
from tests.benchmarks.predicted.shapes import extents
from tests.benchmarks.predicted.train import Example, train
from tests.benchmarks.predicted.trials import Config
from tests.benchmarks.strategies.recording import Recording
from tuner.plan.ranker import Ranker
from tuner.search import PREDICTED, create
from tuner.search.diversify import rank_mixed_by_kind

TRIALS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Judged:
    """How well a ranker did on one shape.

    For each count in ``TRIALS``, ``reached`` has the recorded best's time divided by the fastest
    time among that many configurations that the ranker puts first. ``chance`` is the average of
    this for random configurations.
    """

    operator: str
    workload: dict[str, Any]
    configurations: int
    best_us: float
    reached: list[float]
    chance: list[float]


def left_out(known: Sequence[Example], place: int) -> Judged:
    """Judge a ranker on ``known[place]``. It is trained on the examples with other extents."""
    example = known[place]
    own = extents(example.shape.shape)
    ranker = train([each for each in known if extents(each.shape.shape) != own])
    scores = ranker.scores(example.rows(list(ranker.columns)))
    configs = [config for config, _ in example.shape]

    def neighbours(index: int) -> list[int]:
        return [n for n, config in enumerate(configs) if _differing(config, configs[index]) == 1]

    ranking = rank_mixed_by_kind(dict(enumerate(scores.tolist())), configs.__getitem__, neighbours)
    shape = example.shape
    return _judged(shape.operator, shape.workload, ranking, [time_us for _, time_us in shape])


def whole_space(ranker: Ranker, recorded: Recording) -> Judged:
    """Judge a ranker on a space in which every configuration was timed."""
    workload = templates.operator(recorded.operator).workload.model_validate(recorded.workload)
    limits = DeviceLimits.from_json(recorded.device["limits"])
    prior = partial(ranker.expected, workload, limits, recorded.features)
    strategy = create(PREDICTED, recorded.space, recorded.features, 0, prior)
    ranking = strategy.ask(len(recorded.times))
    return _judged(recorded.operator, recorded.workload, ranking, recorded.times)


def _differing(one: Config, other: Config) -> int:
    """Return the number of knobs in which two configurations differ."""
    return sum(one.get(name) != other.get(name) for name in one | other)


def _judged(
    operator: str,
    workload: dict[str, Any],
    ranking: Sequence[int],
    times: Sequence[float | None],
) -> Judged:
    best = min(time for time in times if time is not None)
    speeds = np.array([0.0 if time is None else best / time for time in times])
    ranked = speeds[list(ranking)]
    drawn = [np.random.default_rng(seed).permutation(speeds) for seed in range(200)]
    return Judged(
        operator,
        workload,
        len(times),
        best,
        [float(ranked[:count].max()) for count in TRIALS],
        [float(np.mean([each[:count].max() for each in drawn])) for count in TRIALS],
    )
