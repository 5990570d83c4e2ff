"""How far a job is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """How far a job is; times in µs and seconds."""

    requested: int
    measured: int
    ok: int
    failed: int
    best: dict[str, Any] | None
    eta_seconds: float | None
