"""Pydantic models of the service's answers, as the client returns them."""

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
    """A job, with links to its events, trials and best."""

    links: JobLinks

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def with_progress(self, progress: Progress) -> Self:
        """Return a copy of this job with a later progress."""
        return self.model_copy(update=dict(progress))


class Trials(Shown):
    """One page of a job's trials. ``next_cursor`` asks for the next page; None on the last."""

    items: list[Trial]
    next_cursor: str | None


class ListedModel(ModelListed):
    """A model without its layers."""

    links: ModelLinks


class Models(Shown):
    """One page of models. ``next_cursor`` asks for the next page; None on the last."""

    items: list[ListedModel]
    next_cursor: str | None


class Model(ModelShown):
    """A model with its layers."""

    layers: list[LinkedLayer]
    links: ModelLinks

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class Signer(Shown):
    """A public key with which workers of the service sign; ``host`` registered it first."""

    public_key: str = Field(pattern="^[0-9a-f]{64}$")
    host: str
    created_at: datetime


class Signers(Shown):
    """All signers of a service, oldest first."""

    items: list[Signer]


class Baseline(Shown):
    """A baseline of the best: the default configuration, the naive schedule, or a peer.

    If it could not be timed, ``time_us`` is None and ``error`` says why. If it has both a time and
    an error, its numbers are wrong.
    """

    name: str
    time_us: float | None = None
    speedup: float | None = None  # its time / the best's; of the best's call if ``level`` is "call"
    max_error: float | None = None
    error: str | None = None
    level: str | None = None  # what the time is of: "kernel" or "call"
    measured_at: datetime | None = None  # set for a peer that an earlier job timed


class Best(BestShown):
    """A best, with its baselines as objects."""

    baselines: list[Baseline] | None  # type: ignore[assignment]  # objects, not dicts
