"""A trial as it is shown: to whoever asks the service, and on the command line."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from db.contract.job import Shown


class TrialShown(Shown):
    """One configuration built, checked and measured, or the reason why not."""

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
