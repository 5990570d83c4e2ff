"""A model's state and progress, which follow from those of its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any

from db.contract.model import EndedJobs, ModelListed, ModelProgress, ModelTrials
from db.contract.order import Terms
from db.sql.choices import JobState
from db.sql.columns import utc
from db.sql.tables import jobs


@dataclass(frozen=True)
class JobSummary:
    """The columns of a job from which its model's state and progress follow. Times are in seconds
    since 1970; ``eta_seconds`` is the estimated number of seconds that are left."""

    seq: int
    state: JobState
    cancel_requested: bool
    trials_requested: int
    trials_measured: int
    eta_seconds: float | None
    started_at: float | None
    finished_at: float | None

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")


SUMMARY_COLUMNS = [jobs.c[name] for name in JobSummary.__dataclass_fields__]


@dataclass(frozen=True)
class Model:
    """A row of the table models, with its jobs as they were at `seen_at`, in the order of the
    layers. Times are in seconds since 1970."""

    seq: int
    id: str
    name: str
    terms: Mapping[str, Any]
    created: float
    cancelled: float | None  # when it was cancelled; its jobs may end later
    seen_at: float
    jobs: Sequence[JobSummary]

    @cached_property
    def state(self) -> JobState:
        """The model's state.

        A cancelled model is running until the jobs that were cancelled with it have ended. Jobs
        that go on for others do not count.

        Any other model whose jobs have all ended is failed if a job failed, else cancelled if a job
        was cancelled, else succeeded. As long as a job has not ended, the model is running if a job
        runs or has ended since the model was ordered, else queued."""
        if self.cancelled is not None:
            stopping = any(job.cancel_requested and not job.ended for job in self.jobs)
            return "running" if stopping else "cancelled"
        states = {job.state for job in self.jobs}
        if states <= {"succeeded", "failed", "cancelled"}:
            worst: tuple[JobState, ...] = ("failed", "cancelled", "succeeded")
            return next(state for state in worst if state in states)
        begun = any((job.finished_at or 0.0) > self.created for job in self.jobs)
        return "running" if "running" in states or begun else "queued"

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")

    @property
    def created_at(self) -> datetime:
        return utc(self.created)

    @property
    def finished_at(self) -> datetime | None:
        if not self.ended:
            return None
        mine = [job for job in self.jobs if self.cancelled is None or job.cancel_requested]
        times = [job.finished_at or 0.0 for job in mine]
        return utc(max(self.created, self.cancelled or 0.0, *times))

    @property
    def progress(self) -> ModelProgress:
        return ModelProgress(
            trials=ModelTrials(
                requested=sum(job.trials_requested for job in self.jobs),
                measured=sum(job.trials_measured for job in self.jobs),
            ),
            jobs=EndedJobs(ended=sum(job.ended for job in self.jobs), all=len(self.jobs)),
        )

    @property
    def eta_seconds(self) -> float | None:
        """An estimate of the seconds until all jobs have ended. None if the model has ended, if no
        job runs, or if a running job has no estimate yet.

        The estimate assumes that a queued job takes as long as the average of the jobs that have
        begun, and that as many jobs run at once as now."""
        running = [job for job in self.jobs if job.state == "running"]
        left = [job.eta_seconds for job in running if job.eta_seconds is not None]
        if self.ended or not running or len(left) < len(running):
            return None
        lasting = [
            (job.finished_at or self.seen_at + (job.eta_seconds or 0.0)) - job.started_at
            for job in self.jobs
            if job.started_at is not None and job.state in ("running", "succeeded")
        ]
        queued = sum(job.state == "queued" for job in self.jobs)
        work = sum(left) + queued * sum(lasting) / len(lasting)
        return max(*left, work / len(running))

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of ModelListed."""
        names = ModelListed.model_fields.keys() - {each.name for each in fields(Terms)}
        return {**self.terms, **{name: getattr(self, name) for name in names}}
