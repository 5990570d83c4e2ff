"""A job, an accepted order and its progress, as it is stored and as the service shows it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from db.contract.order import COLUMNS, EchoedTerms, JobOrder
from db.sql.choices import JobState


@dataclass(frozen=True, kw_only=True)
class Job(JobOrder):
    """A row of the table jobs, joined with its workload. ``trials`` is the number that was ordered;
    the trials that ran are counted by ``trials_measured``, ``trials_ok`` and ``trials_failed``."""

    id: str
    state: JobState
    trials_measured: int
    trials_ok: int
    trials_failed: int
    warmed: dict[str, int] | None  # numbers of earlier "jobs" and "trials" that guide the search
    device_id: int | None  # the device on which it runs or ran
    best: dict[str, Any] | None  # the best so far: config, time_us, gflops
    eta_seconds: float | None
    attempt: int  # raised by each claim; every write of a worker names it
    released: int  # attempts that were given back; they do not count against MAX_ATTEMPTS
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
        """Return the job in a row of ``db.queue.jobs.job_columns``, with times in UTC."""
        found = {each.name: row[COLUMNS.get(each.name, each.name)] for each in fields(cls)}
        for name in ("created_at", "started_at", "finished_at"):
            if found[name] is not None:
                found[name] = datetime.fromtimestamp(found[name], UTC)
        found["templates"] = tuple(found["templates"]) if found["templates"] else None
        return cls(**found)


class Shown(BaseModel):
    """Base of the models in the service's answers, which service and client share.

    A client ignores fields that a newer service adds, and fields that an older service lacks have a
    default. The OpenAPI document marks all fields as required, because the service sends them
    all."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        from_attributes=True,
        json_schema_serialization_defaults_required=True,
    )


class DeviceView(Shown):
    """A device, to which results belong: its kind (``cpu`` or ``cuda``), name and architecture."""

    kind: str
    name: str
    arch: str


class TrialCounts(Shown):
    """The numbers of a job's trials: ordered, measured so far, and of these ok and failed."""

    requested: int
    measured: int
    ok: int
    failed: int


class BestSoFar(Shown):
    """The fastest configuration that a running job has found, its time in microseconds (warm
    median), and its speed in GFLOP/s."""

    config: dict[str, Any]
    time_us: float
    gflops: float | None = None


ServicePath = Annotated[str, Field(pattern="^/")]
"""A path at the service that answered. It names no host, so that a client which follows it cannot
be led to send its API key elsewhere."""


class JobLinks(Shown):
    """Paths at the service where there is more about a job."""

    self: ServicePath
    trials: ServicePath
    events: ServicePath = Field(description="server-sent events, until the job ends")
    cancel: ServicePath
    best: ServicePath


class WarmStart(Shown):
    """Whether a job's search begins with earlier trials of other shapes on the same device, and
    with how many of how many jobs."""

    enabled: bool
    jobs: int | None = Field(
        None, description="number of jobs of other shapes whose trials guide the search"
    )
    trials: int | None = Field(
        None, description="number of those trials; null until the job has begun"
    )


class Progress(Shown):
    """The fields of a job that change while it runs: device, counts, best so far, seconds left."""

    device: DeviceView | None = Field(None, description="the device that it runs or ran on")
    trials: TrialCounts
    best: BestSoFar | None = None
    eta_seconds: float | None = None


class JobShown(Progress, EchoedTerms):
    """A job: what was ordered, and how far it is. ``best`` is the best configuration so far."""

    id: str
    state: JobState
    operator: str
    workload: dict[str, Any]
    warm_start: WarmStart
    attempt: int = Field(description="counts how often a worker has taken the job")
    cancel_requested: bool = False
    worker: str | None = Field(None, description="who holds it, or held it last")
    waiting: str | None = Field(
        None,
        description="why no living worker can take the job, and what to do, or that its worker "
        "gives no sign of life; null if one can take it or holds it",
    )
    error: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


def job_fields(job: Job, device: object | None, waiting: str | None) -> dict[str, Any]:
    """Return the fields of JobShown. ``device`` is an object with the attributes of DeviceView, or
    None if the job has run nowhere yet. ``waiting`` is why it waits."""
    warmed = job.warmed or {}
    own = {name: getattr(job, name) for name in JobShown.model_fields if hasattr(job, name)}
    return own | {
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
