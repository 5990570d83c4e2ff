"""The JSON of a trial."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from api.schemas.common import CONFIG
from db.contract.trial import TrialShown

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


class TrialView(TrialShown):
    """A candidate that was built, checked and measured, or the reason why not."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})
