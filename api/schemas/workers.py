"""The JSON of a worker."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from api.schemas.common import DEVICE, JOB_ID
from db.contract.job import DeviceView, Shown

_EXAMPLE: dict[str, Any] = {
    "name": "gpu-host-1:4711",
    "host": "gpu-host-1",
    "pid": 4711,
    "device": DEVICE,
    "version": "0.1.0",
    "job": JOB_ID,
    "alive": True,
    "started_at": "2025-11-20T16:00:00Z",
    "seen_at": "2025-11-20T17:00:05Z",
}


class WorkerView(Shown):
    """A worker: its process and host, its device, and the job that it works on."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: str
    host: str
    pid: int
    device: DeviceView | None
    version: str
    job: str | None = Field(validation_alias="job_id", description="the job that it works on")
    alive: bool = Field(description="whether it was seen within the last minute")
    started_at: datetime
    seen_at: datetime
