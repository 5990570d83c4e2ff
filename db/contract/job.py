"""A job: an order that was taken, and how far it is, as it is stored and as it is shown."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from db.contract.order import COLUMNS, JobOrder, KeptTerms
from db.sql.choices import JobState


@dataclass(frozen=True, kw_only=True)
class Job(JobOrder):
    """A row of jobs with its workload; ``trials`` are those that were ordered."""

    id: str
    state: JobState
    trials_measured: int
    trials_ok: int
    trials_failed: int
    warmed: dict[str, int] | None  # jobs and trials that guide the search
    device_id: int | None  # where it runs or ran
    best: dict[str, Any] | None  # config, time_us, gflops
    eta_seconds: float | None
    attempt: int  # raised by each claim; every write of a worker names it
    released: int  # attempts given back, which are not charged
    cancel_requested: bool
    worker: str | None  # who holds it, or held it last
    error: str | None
    created_at: datetime
    started_at: datetime | None  # of the first attempt
    finished_at: datetime | None

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")

    @classmethod
    def from_row(cls, row: Any) -> Self:
        found = {each.name: row[COLUMNS.get(each.name, each.name)] for each in fields(cls)}
        for name in ("created_at", "started_at", "finished_at"):
            if found[name] is not None:
                found[name] = datetime.fromtimestamp(found[name], UTC)
        found["templates"] = tuple(found["templates"]) if found["templates"] else None
        return cls(**found)


class Shown(BaseModel):
    """Part of an answer. Fields that a newer service adds are left out, and those that it may lack
    have a default; its document promises them all."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        from_attributes=True,
        json_schema_serialization_defaults_required=True,
    )


class DeviceView(Shown):
    """A machine part that results belong to."""

    kind: str
    name: str
    arch: str


class TrialCounts(Shown):
    requested: int
    measured: int
    ok: int
    failed: int


class BestSoFar(Shown):
    config: dict[str, Any]
    time_us: float
    gflops: float | None = None


ServicePath = Annotated[str, Field(pattern="^/")]
"""Of the service that answered: elsewhere nobody is to be sent an API key."""


class JobLinks(Shown):
    """Where more of a job is."""

    self: ServicePath
    trials: ServicePath
    events: ServicePath = Field(description="server-sent events, until the job ends")
    cancel: ServicePath
    best: ServicePath


class WarmStart(Shown):
    enabled: bool
    jobs: int | None = Field(None, description="of other shapes, whose trials guide the search")
    trials: int | None = Field(None, description="how many they are; null until the job has begun")


class Progress(Shown):
    """What changes of a job while it runs."""

    device: DeviceView | None = Field(None, description="where it runs or ran")
    trials: TrialCounts
    best: BestSoFar | None = None
    eta_seconds: float | None = None


class JobShown(Progress, KeptTerms):
    """An order and how far it is; ``best`` is the best so far."""

    id: str
    state: JobState
    operator: str
    workload: dict[str, Any]
    warm_start: WarmStart
    attempt: int = Field(description="raised each time a worker takes the job up")
    cancel_requested: bool = False
    worker: str | None = Field(None, description="who holds it, or held it last")
    waiting: str | None = Field(
        None,
        description="of a queued job: why no living worker can take it, and what to do; null if "
        "one can",
    )
    error: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


def shown(job: Job, device: object | None, waiting: str | None) -> dict[str, Any]:
    """The fields of JobShown. ``device`` has the attributes of DeviceView."""
    warmed = job.warmed or {}
    told = {name: getattr(job, name) for name in JobShown.model_fields if hasattr(job, name)}
    return told | {
        "device": device,
        "waiting": waiting,
        "trials": TrialCounts(
            requested=job.trials,
            measured=job.trials_measured,
            ok=job.trials_ok,
            failed=job.trials_failed,
        ),
        "warm_start": WarmStart(enabled=job.warm_start, **warmed),
    }
