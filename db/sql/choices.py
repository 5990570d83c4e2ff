"""What is chosen from by name, and the place that is meant if nobody names one; without SQL, which
takes longer to import than a list of names should."""

from typing import Literal

DATABASE_URL = "sqlite:///convtune.db"

JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
STATES: tuple[JobState, ...] = ("queued", "running", "succeeded", "failed", "cancelled")

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
"""How a trial ended."""

Scope = Literal["read", "submit", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "submit", "admin")
"""Each may do what those before it may."""

Format = Literal["convtune", "metaschedule", "autotvm", "kerneltuner"]
Kept = Literal["trials", "bests"]
"""What a log is to hold."""
