"""The progress of a job, and the estimate of how long its search still takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Counts of a job's trials, its best so far (time in µs), and the estimate in seconds."""

    requested: int
    measured: int
    ok: int
    failed: int
    best: dict[str, Any] | None
    eta_seconds: float | None


def eta_seconds(
    *,
    elapsed: float,
    fresh: int,
    left: int,
    patience_left: int | None = None,
    budget_seconds: float | None = None,
) -> float | None:
    """Return the seconds to the end of the search if nothing faster is found; None if unknown.

    ``fresh`` trials took ``elapsed`` seconds, and ``left`` more are wanted. The search ends after
    ``patience_left`` more trials that are no faster, and after ``budget_seconds`` in all; None
    means no such limit.
    """
    if patience_left is not None:
        left = min(left, max(0, patience_left))
    budget_left = None if budget_seconds is None else max(0.0, budget_seconds - elapsed)
    if fresh == 0:
        return budget_left
    to_come = elapsed / fresh * left
    return to_come if budget_left is None else min(to_come, budget_left)
