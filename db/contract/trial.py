"""A trial, as the service and the command line show it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from db.contract.job import Shown


class TrialShown(Shown):
    """A configuration that was built, checked and measured, or the reason why it was not."""

    number: int = Field(description="number within its job, from 1")
    config: dict[str, Any]
    template: str
    status: str
    time_us: float | None = Field(description="warm median")
    timing: dict[str, Any] | None
    max_error: float | None
    error: str | None
    seconds: dict[str, float] = Field(description="spent in schedule, build, check and run")
    created_at: datetime
