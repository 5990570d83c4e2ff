"""Rankers for replays. They have not learnt from any shape like the searched shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import templates
from templates.workload import Workload
from tests.benchmarks.predicted.known import known, others
from tests.benchmarks.predicted.shapes import extents
from tests.benchmarks.predicted.train import train
from tests.benchmarks.strategies.recording import Known
from tuner.plan.ranker import Ranker, pretrained
from tuner.search import Prior

Config = dict[str, Any]


def ranker_without(kind: str, workload: Workload) -> Ranker:
    """Return a ranker for a kind of device that has not learnt from shapes like the workload. It is
    the package's ranker if possible, else one that is trained without these shapes."""
    learnt = {extents(each.shape.shape) for each in known(workload.operator, kind)}
    packaged = pretrained(workload.operator, kind)
    if packaged is not None and extents(workload) not in learnt:
        return packaged
    return _trained(kind, workload.key)


def prior_of(here: Known) -> Prior:
    """Return the prior of a replay: :func:`ranker_without`'s scores of a recording's
    configurations, computed once."""
    ranker = ranker_without(here.device["kind"], here.shape)
    whole = ranker.expected(here.shape, here.limits, here.features, list(here.space))

    def prior(configs: Sequence[Config]) -> NDArray[np.float32]:
        return whole[[here.space.index(config) for config in configs]]

    return prior


@cache
def _trained(kind: str, key: str) -> Ranker:
    return train(others(templates.parse_key(key), kind))
