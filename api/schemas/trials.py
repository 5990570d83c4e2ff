"""A trial as it is shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.common import CONFIG
from db.results.trials import Trial

_EXAMPLE: dict[str, Any] = {
    "number": 17,
    "config": CONFIG,
    "template": "direct",
    "status": "ok",
    "time_us": 1.71,
    "timing": {"warm": {"median": 1.71, "p10": 1.69, "p90": 1.75, "samples": 20}},
    "max_error": 2.4e-7,
    "error": None,
    "seconds": {"schedule": 0.01, "build": 0.21, "check": 0.02, "run": 0.05},
    "created_at": "2025-11-20T17:00:05Z",
}


class TrialView(BaseModel):
    """One configuration built, checked and measured, or the reason why not."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    number: int = Field(description="from 1 within its job")
    config: dict[str, Any]
    template: str
    status: str
    time_us: float | None = Field(description="warm median")
    timing: dict[str, Any] | None
    max_error: float | None
    error: str | None
    seconds: dict[str, float] = Field(description="spent in schedule, build, check and run")
    created_at: datetime

    @classmethod
    def of(cls, trial: Trial) -> Self:
        return cls(**{name: getattr(trial, name) for name in cls.model_fields})
