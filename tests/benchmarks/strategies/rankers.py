"""Rankers for replays, trained on all recorded shapes but those like the one that is searched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import templates
from templates.workload import Workload
from tests.benchmarks.predicted.known import others
from tests.benchmarks.predicted.train import train
from tests.benchmarks.strategies.recording import Known
from tuner.plan.ranker import Ranker
from tuner.search import Prior

Config = dict[str, Any]


def ranker_without(kind: str, workload: Workload) -> Ranker:
    """Return a ranker for a kind of device that has not learnt from shapes like the workload."""
    return _trained(kind, workload.key)


def prior_of(known: Known) -> Prior:
    """Return the prior of a replay: :func:`ranker_without`'s scores of a recording's
    configurations, computed once."""
    ranker = ranker_without(known.device["kind"], known.shape)
    whole = ranker.expected(known.shape, known.limits, known.features, list(known.space))

    def prior(configs: Sequence[Config]) -> NDArray[np.float32]:
        return whole[[known.space.index(config) for config in configs]]

    return prior


@cache
def _trained(kind: str, key: str) -> Ranker:
    return train(others(templates.parse_key(key), kind))
