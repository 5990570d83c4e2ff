"""What the trials of a job's workload have come to."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from tuner.plan.plan import Config

ERROR_CHARACTERS = 400


class Tally:
    """Counts a job's own trials, and what is known of its workload from other jobs too."""

    def __init__(self) -> None:
        self.worked: list[tuple[Config, float]] = []
        """Configurations of all jobs that worked, with their µs."""
        self.statuses: Counter[str] = Counter()
        """Of the job's own trials."""
        self.failures: Counter[str] = Counter()
        """Of all jobs."""
        self.no_faster = 0
        """The job's own trials since the fastest of all."""
        self._first_error = ""
        self._fastest_us = math.inf

    @property
    def total(self) -> int:
        """How many trials the job has."""
        return self.statuses.total()

    def add(
        self, config: Config, status: str, time_us: float | None, error: str | None, *, own: bool
    ) -> None:
        """Count a trial, of this job if ``own``."""
        self._note_failure(status, error)
        if own:
            self.statuses[status] += 1
        if time_us is not None:
            self.worked.append((config, time_us))
        if time_us is not None and time_us < self._fastest_us:
            self._fastest_us, self.no_faster = time_us, 0
        elif own:
            self.no_faster += 1

    def add_refused(self, status: str, error: str | None) -> None:
        """Count a trial of this job whose configuration the device's space lacks."""
        self._note_failure(status, error)
        self.statuses[status] += 1

    def best(self, flops: int) -> dict[str, Any] | None:
        """The fastest configuration with its µs and GFLOP/s, None if none worked."""
        if not self.worked:
            return None
        config, time_us = min(self.worked, key=lambda trial: trial[1])
        return {"config": config, "time_us": time_us, "gflops": flops / time_us * 1e-3}

    def why_nothing_worked(self) -> str:
        if not self.failures:
            return "there is no configuration to try: the space is empty"
        counts = ", ".join(f"{n} {status}" for status, n in self.failures.most_common())
        total = self.failures.total()
        first = self._first_error[:ERROR_CHARACTERS]
        return f"none of {total} configurations worked ({counts}); first: {first}"

    def _note_failure(self, status: str, error: str | None) -> None:
        if status != "ok":
            self.failures[status] += 1
            self._first_error = self._first_error or " ".join((error or "").split())
