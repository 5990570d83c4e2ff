"""A model, an order of many workloads, as it is ordered, stored and shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from db.contract.job import DeviceView, ServicePath, Shown
from db.contract.order import JobOrder, Terms
from db.sql.choices import JobState

MAX_WORKLOADS = 256
MAX_CALLS = 1_000_000
MAX_NAME = 200


@dataclass(frozen=True)
class LayerOrder:
    """An order of one workload on its model's terms, and how many times the model calls it."""

    order: JobOrder
    calls: int


@dataclass(frozen=True)
class ModelOrder:
    """An order of at least one layer under one name. All layers are on the same terms."""

    name: str
    layers: tuple[LayerOrder, ...]

    @classmethod
    def of(cls, name: str, layers: Iterable[LayerOrder]) -> Self:
        """Return the order of these layers. Layers with equal workloads become one, whose calls are
        the sum of theirs."""
        merged: dict[str, LayerOrder] = {}
        for each in layers:
            before = merged.get(each.order.workload_key)
            calls = each.calls + (before.calls if before else 0)
            merged[each.order.workload_key] = LayerOrder(each.order, calls)
        return cls(name, tuple(merged.values()))


class ModelTrials(Shown):
    """The numbers of trials that a model's jobs were ordered to make, and that were measured."""

    requested: int
    measured: int


class EndedJobs(Shown):
    """The number of a model's jobs that have ended, and of all its jobs."""

    ended: int
    all: int


class ModelProgress(Shown):
    """Progress of a model, summed over its jobs."""

    trials: ModelTrials
    jobs: EndedJobs


class ModelTime(Shown):
    """The time of one pass through the model, in microseconds: the sum of each layer's time
    multiplied by its calls. Only layers whose best was timed beside a PyTorch peer count. The sums
    are null if there is no such layer."""

    tuned_us: float | None = Field(None, description="time of our bests")
    baseline_us: float | None = Field(None, description="time of PyTorch, in the same layout")
    gain: float | None = Field(None, description="baseline_us divided by tuned_us")
    layers: int = Field(description="number of layers that count in the sums")


class LayerPeer(Shown):
    """PyTorch's fastest way to compute the workload in the workload's own layout."""

    name: str
    time_us: float = Field(
        description="time of the kernel on a GPU, of the call from Python on a CPU"
    )
    speedup: float = Field(
        description="this time divided by our best's, which is taken in the same way"
    )


class LayerBest(Shown):
    """The stored best for a layer, its time in microseconds, and PyTorch's time beside it."""

    template: str
    config: dict[str, Any]
    time_us: float = Field(description="warm median")
    device: DeviceView
    peer: LayerPeer | None = Field(None, description="null if the best's round had no PyTorch peer")


class LayerShown(Shown):
    """A workload of a model, and the job that tunes it."""

    operator: str
    workload: dict[str, Any]
    calls: int = Field(description="how many times the model calls it")
    job: str = Field(description="the id of the job; other orders may share it")
    state: JobState = Field(description="the job's state")
    best: LayerBest | None = Field(None, description="the stored best that answers the order")


class LayerLinks(Shown):
    """Paths at the service of a layer's job and best."""

    job: ServicePath
    best: ServicePath


class LinkedLayer(LayerShown):
    """A workload of a model and the job that tunes it, with links to both job and best."""

    links: LayerLinks


class ModelLinks(Shown):
    """Paths at the service of a model, and of the route that cancels it."""

    self: ServicePath
    cancel: ServicePath


class ModelListed(Shown, Terms):
    """A model, which is an order of many workloads, and how far it is."""

    id: str
    name: str
    state: JobState = Field(
        description="after all jobs have ended: failed if a job failed, else cancelled if a job "
        "was cancelled, else succeeded"
    )
    progress: ModelProgress
    eta_seconds: float | None = Field(
        None,
        description="estimated from its running jobs' estimates and the times of its jobs so far",
    )
    created_at: datetime
    finished_at: datetime | None = None


class ModelShown(ModelListed):
    """A model with its layers, and its time compared with PyTorch's."""

    time: ModelTime
    layers: Sequence[LayerShown]
