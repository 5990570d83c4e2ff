"""What the service answers, as the client gives it out: values with attributes."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import Field

from db.contract.best import BestShown
from db.contract.job import JobLinks, JobShown, Progress, Shown
from db.contract.model import LinkedLayer, ModelLinks, ModelListed, ModelShown
from db.contract.trial import TrialShown

ENDED = ("succeeded", "failed", "cancelled")

Trial = TrialShown


class Job(JobShown):
    links: JobLinks

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def at(self, progress: Progress) -> Self:
        """The same job so far."""
        return self.model_copy(update=dict(progress))


class Trials(Shown):
    """One page of them."""

    items: list[Trial]
    next_cursor: str | None


class ListedModel(ModelListed):
    """A model without its layers."""

    links: ModelLinks


class Models(Shown):
    """One page of them."""

    items: list[ListedModel]
    next_cursor: str | None


class Model(ModelShown):
    layers: list[LinkedLayer]
    links: ModelLinks

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class Signer(Shown):
    """A key that workers of the service sign with."""

    public_key: str = Field(pattern="^[0-9a-f]{64}$")
    host: str
    created_at: datetime


class Signers(Shown):
    items: list[Signer]


class Baseline(Shown):
    """What was measured beside the best: the default configuration, the naive schedule, a peer.
    Its time is None if it did not run, as ``error`` says; ``error`` beside a time: its numbers are
    wrong."""

    name: str
    time_us: float | None = None
    speedup: float | None = None  # of the best over it, of its call if ``level`` is call
    max_error: float | None = None
    error: str | None = None
    level: str | None = None  # kernel, call
    measured_at: datetime | None = None  # of a peer that an earlier job timed


class Best(BestShown):
    baselines: list[Baseline] | None  # type: ignore[assignment]  # with attributes
