"""Train a ranker on recorded trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import templates
from templates.limits import DeviceLimits
from templates.workload import Workload
from tests.benchmarks.predicted.trials import Config, Recorded, Recordings
from tuner.plan.ranker import Derive, Ranker
from tuner.plan.traits import config_traits, shape_traits

ROUNDS = 150
FAILED = 4.0
"""A failed configuration counts as 2 to this power times slower than the slowest one."""
PARAMS: dict[str, Any] = {
    "objective": "reg:squarederror",
    "max_depth": 6,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.4,
    "num_parallel_tree": 3,
    "seed": 0,
    "nthread": 1,
    "verbosity": 0,
}


@dataclass(frozen=True)
class Example:
    """One shape's trials on a device; at least one of them worked."""

    shape: Recorded
    device: Recordings

    @cached_property
    def traits(self) -> tuple[dict[str, float], list[dict[str, float]]]:
        """The traits of the shape, and those of each configuration."""
        workload, limits = self.shape.shape, self.device.limits
        derive = deriving(workload, limits)
        configs = [config_traits(config, derive(config)) for config, _ in self.shape]
        return shape_traits(workload, limits), configs

    @cached_property
    def slower(self) -> NDArray[np.float64]:
        """log2 of each trial's time over the fastest's, of shape (trials,)."""
        best = self.shape.best_us
        times = [time_us for _, time_us in self.shape]
        slowest = max(time_us for time_us in times if time_us is not None)
        failed = np.log2(slowest / best) + FAILED
        return np.array([failed if time is None else np.log2(time / best) for time in times])

    def rows(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Return the traits ``names`` of all trials, of shape (trials, names). A missing trait is
        NaN."""
        common, each = self.traits
        found = [{**common, **own} for own in each]
        return np.array([[one.get(name, np.nan) for name in names] for one in found], np.float32)


def examples(devices: Iterable[Recordings], operator: str) -> list[Example]:
    """Return the recorded shapes of an operator that have a trial that worked."""
    return [
        Example(shape, device)
        for device in devices
        for shape in device.of(operator)
        if shape.best_us
    ]


def train(learnt: Sequence[Example]) -> Ranker:
    """Return a ranker that has learnt from examples of one operator and kind of device.

    It learns how much slower each trial is than its shape's fastest, because a factor that all
    trials of a shape share does not change their order. Fast trials weigh more, because the order
    of slow trials does not matter.
    """
    import xgboost

    names = sorted(
        {name for each in learnt for one in (each.traits[0], *each.traits[1]) for name in one}
    )
    data = xgboost.DMatrix(
        np.concatenate([each.rows(names) for each in learnt]),
        label=np.concatenate([each.slower for each in learnt]),
        weight=np.concatenate([2.0**-each.slower for each in learnt]),
        feature_names=names,
        nthread=1,
    )
    booster = xgboost.train(PARAMS, data, ROUNDS)
    booster.set_attr(trained_on=told(learnt))
    return Ranker(booster)


def told(learnt: Sequence[Example]) -> str:
    """Return a text with the numbers of trials and shapes of each device."""
    trials: dict[str, list[int]] = {}
    for each in learnt:
        device = each.device.device
        where = f"{device['name']} ({device['arch']}), {each.device.date}"
        trials.setdefault(where, []).append(len(each.shape.trials))
    return "; ".join(
        f"{where}: {sum(counts)} trials of {len(counts)} shapes" for where, counts in trials.items()
    )


def deriving(workload: Workload, limits: DeviceLimits) -> Derive:
    """Return a function that derives a configuration's features with today's templates, as a job's
    plan does."""
    by_name = {each.name: each for each in templates.templates_for(workload, limits)}

    def derive(config: Config) -> dict[str, float]:
        derived = by_name[config["template"]].features(workload, config, limits)
        return derived | {"bytes": workload.bytes, "flops": workload.flops}

    return derive
