"""Names to choose from, such as states and scopes, and the default database's URL.

They are apart from the tables, so that code that needs only names does not import SQLAlchemy."""

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
    "machine_error",
    "wrong_answer",
    "skipped",
]
"""The results with which a trial can end."""
MACHINE_ERROR: TrialStatus = "machine_error"
"""The machine lacked something that the trial needed, such as memory. Such a trial says nothing
about its configuration, so other jobs try the configuration again."""
TIMEOUTS: tuple[TrialStatus, ...] = ("build_timeout", "run_timeout")
"""The trial was killed at its limit. Other jobs with a larger limit try its configuration again."""
SKIPPED: TrialStatus = "skipped"
"""No space has the imported configuration, so it was not built."""

KeyScope = Literal["read", "submit", "admin"]
SCOPES: tuple[KeyScope, ...] = ("read", "submit", "admin")
"""Each scope includes those before it."""

Format = Literal["convtune", "metaschedule", "autotvm", "kerneltuner"]
Kept = Literal["trials", "bests"]
"""The records that an exported log can hold."""
