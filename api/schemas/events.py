"""The query of a job's events, and the JSON of the events ``best`` and ``progress``.

The other events carry jobs and trials.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.common import CONFIG, DEVICE, BlankableQuery
from db.contract.job import Job, Progress, job_fields
from db.fleet.devices import Device
from db.results.trials import Trial

_BEST: dict[str, Any] = {"number": 17, "time_us": 1.71, "gflops": 614.3, "config": CONFIG}
_PROGRESS: dict[str, Any] = {
    "device": DEVICE,
    "trials": {"requested": 64, "measured": 24, "ok": 22, "failed": 2},
    "best": {"config": CONFIG, "time_us": 1.71, "gflops": 614.3},
    "eta_seconds": 7.5,
}


class EventsQuery(BlankableQuery):
    """The query of a job's events."""

    after: int = Field(
        0,
        ge=0,
        lt=10**9,
        description="leave out trials up to this number; Last-Event-ID takes precedence",
    )


class BestEvent(BaseModel):
    """A trial that was faster than every earlier one of the workload on the device."""

    model_config = ConfigDict(json_schema_extra={"examples": [_BEST]})

    number: int = Field(description="number of the trial")
    time_us: float = Field(description="warm median")
    gflops: float
    config: dict[str, Any]

    @classmethod
    def of(cls, trial: Trial, time_us: float, flops: int) -> Self:
        return cls(
            number=trial.number,
            time_us=time_us,
            gflops=flops / time_us * 1e-3,
            config=trial.config,
        )


class ProgressEvent(Progress):
    """How far a job is: the fields of a job that change while it runs."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PROGRESS]})

    @classmethod
    def of(cls, job: Job, device: Device | None) -> Self:
        return cls(**job_fields(job, device, waiting=None))
