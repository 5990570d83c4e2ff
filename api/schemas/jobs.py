"""A job as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.common import CONFIG, DEVICE, JOB_ID, DeviceView, OperatorPageQuery, PageQuery
from api.schemas.order import Target
from db.fleet.devices import Device
from db.queue import Job, JobState

_EXAMPLE: dict[str, Any] = {
    "id": JOB_ID,
    "state": "running",
    "operator": "conv1d",
    "workload": {
        "M": 16384,
        "N": 32,
        "mode": "full",
        "kind": "convolve",
        "dtype": "float32",
        "max_error": 1e-5,
    },
    "target": "auto",
    "device": DEVICE,
    "search": "xgb",
    "on_existing": "reuse",
    "budget_seconds": None,
    "seed": None,
    "patience": None,
    "warm_start": {"enabled": True, "jobs": 2, "trials": 128},
    "templates": None,
    "trials": {"requested": 64, "measured": 24, "ok": 22, "failed": 2},
    "best": {"config": CONFIG, "time_us": 1.71, "gflops": 614.3},
    "eta_seconds": 7.5,
    "attempt": 1,
    "cancel_requested": False,
    "worker": "gpu-host-1:4711",
    "waiting": None,
    "error": None,
    "created_at": "2025-11-20T17:00:00Z",
    "started_at": "2025-11-20T17:00:01Z",
    "finished_at": None,
    "links": {
        "self": f"/jobs/{JOB_ID}",
        "trials": f"/jobs/{JOB_ID}/trials",
        "events": f"/jobs/{JOB_ID}/events",
        "cancel": f"/jobs/{JOB_ID}/cancel",
        "best": "/best/conv1d?M=16384&N=32",
    },
}


TrialStatus = Literal[
    "ok",
    "schedule_error",
    "build_error",
    "build_timeout",
    "run_error",
    "run_timeout",
    "wrong_answer",
    "skipped",
]


class JobsQuery(OperatorPageQuery):
    state: JobState | None = Field(None, description="only in this state")


class TrialsQuery(PageQuery):
    limit: int = Field(100, ge=1, le=1000, description="items a page")
    status: TrialStatus | None = Field(None, description="only with this status")


class TrialCounts(BaseModel):
    requested: int
    measured: int
    ok: int
    failed: int


class BestSoFar(BaseModel):
    config: dict[str, Any]
    time_us: float
    gflops: float | None


class WarmStart(BaseModel):
    enabled: bool
    jobs: int | None = Field(description="of other shapes, whose trials guide the search")
    trials: int | None = Field(description="how many they are; null until the job has begun")


class JobLinks(BaseModel):
    self: str
    trials: str
    events: str = Field(description="server-sent events, until the job ends")
    cancel: str
    best: str


class JobView(BaseModel):
    """A user's order and how far it is. ``links.best`` answers once something was found."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    id: str
    state: JobState
    operator: str
    workload: dict[str, Any]
    target: Target
    device: DeviceView | None = Field(description="where it runs or ran")
    search: str
    on_existing: str
    budget_seconds: float | None
    seed: int | None
    patience: int | None
    warm_start: WarmStart
    templates: list[str] | None = Field(description="the only ones it may take; null: any")
    trials: TrialCounts
    best: BestSoFar | None
    eta_seconds: float | None
    attempt: int = Field(description="raised each time a worker takes the job up")
    cancel_requested: bool
    worker: str | None = Field(description="who holds it, or held it last")
    waiting: str | None = Field(
        description="of a queued job: why no living worker can take it, and what to do; null if "
        "one can"
    )
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    links: JobLinks

    @classmethod
    def of(cls, job: Job, device: Device | None, waiting: str | None) -> Self:
        return cls(
            id=job.id,
            state=job.state,
            operator=job.operator,
            workload=job.workload,
            target=job.target,
            device=None if device is None else DeviceView.of(device),
            search=job.search,
            on_existing=job.on_existing,
            budget_seconds=job.budget_seconds,
            seed=job.seed,
            patience=job.patience,
            warm_start=_warm_start(job),
            templates=None if job.templates is None else list(job.templates),
            trials=TrialCounts(
                requested=job.trials_requested,
                measured=job.trials_measured,
                ok=job.trials_ok,
                failed=job.trials_failed,
            ),
            best=None if job.best is None else BestSoFar(**job.best),
            eta_seconds=job.eta_seconds,
            attempt=job.attempt,
            cancel_requested=job.cancel_requested,
            worker=job.worker,
            waiting=waiting,
            error=job.error,
            created_at=job.created_at,
            started_at=job.started_at,
            finished_at=job.finished_at,
            links=_links(job),
        )


def _warm_start(job: Job) -> WarmStart:
    known = job.warmed or {}
    return WarmStart(enabled=job.warm_start, jobs=known.get("jobs"), trials=known.get("trials"))


def _links(job: Job) -> JobLinks:
    here = f"/jobs/{job.id}"
    asked = dict(job.workload)
    if job.target != "auto":
        asked["target"] = job.target
    if job.templates is not None:
        asked["templates"] = ",".join(job.templates)
    return JobLinks(
        self=here,
        trials=f"{here}/trials",
        events=f"{here}/events",
        cancel=f"{here}/cancel",
        best=best_link(job.operator, asked),
    )


def best_link(operator: str, query: Mapping[str, object]) -> str:
    return f"/best/{operator}?{urlencode(query)}"
