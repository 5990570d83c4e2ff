"""Counts of a job's trials, and the fastest configurations that are known for its workload."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from tuner.plan.plan import Config

ERROR_CHARACTERS = 400


class Tally:
    """Counts of trials: the job's own, and those that other jobs stored for the same workload."""

    def __init__(self) -> None:
        self.worked: list[tuple[Config, float]] = []
        """Configurations of all jobs that worked, with their times in µs."""
        self.statuses: Counter[str] = Counter()
        """How many of the job's own trials have each status."""
        self.failures: Counter[str] = Counter()
        """How many trials of all jobs failed, by status."""
        self.no_faster = 0
        """How many of the job's own trials came after the fastest trial of all jobs."""
        self._first_error = ""
        self._fastest_us = math.inf

    @property
    def total(self) -> int:
        """The number of the job's own trials."""
        return self.statuses.total()

    def add(
        self, config: Config, status: str, time_us: float | None, error: str | None, *, own: bool
    ) -> None:
        """Count a trial, which is the job's own if ``own``; ``time_us`` is None if it failed."""
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
        """Count an own trial whose configuration is not in the device's space."""
        self._note_failure(status, error)
        self.statuses[status] += 1

    def best(self, flops: int) -> dict[str, Any] | None:
        """Return the fastest configuration with its µs and GFLOP/s; None if none worked.

        ``flops`` are the workload's floating-point operations.
        """
        if not self.worked:
            return None
        config, time_us = min(self.worked, key=lambda trial: trial[1])
        return {"config": config, "time_us": time_us, "gflops": flops / time_us * 1e-3}

    def why_nothing_worked(self) -> str:
        """Return a sentence with the counts of failures, the first error and, if all trials were
        inexact, a way out."""
        if not self.failures:
            return "there is no configuration to try: the space is empty"
        counts = ", ".join(f"{n} {status}" for status, n in self.failures.most_common())
        total = self.failures.total()
        first = self._first_error[:ERROR_CHARACTERS]
        inexact = list(self.failures) == ["wrong_answer"]
        way_out = "; order a larger max_error, if you can accept it" if inexact else ""
        return f"none of {total} configurations worked ({counts}); first: {first}{way_out}"

    def _note_failure(self, status: str, error: str | None) -> None:
        if status != "ok":
            self.failures[status] += 1
            self._first_error = self._first_error or " ".join((error or "").split())
