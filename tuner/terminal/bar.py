"""A job's progress as one line that moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

if TYPE_CHECKING:
    from db.contract.job import Job


class JobBar:
    """Best so far, trials done and failed, trials a second, time to go; on standard error. Where
    that is no terminal, the last state alone is printed."""

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}", markup=False),
            console=console or Console(stderr=True),
        )
        self._task = self._bar.add_task("waiting for a worker", total=None, pace="")
        self._clock = clock
        self._first: tuple[float, int] | None = None

    def show(
        self,
        *,
        state: str,
        requested: int,
        measured: int,
        failed: int,
        best_us: float | None,
        eta_seconds: float | None,
    ) -> None:
        """Where the job stands now. A job may begin with trials of an earlier attempt: its pace is
        that of the trials seen here."""
        now = self._clock()
        if state != "queued" and self._first is None:
            self._first = now, measured
        parts = [f"{failed} failed"] if failed else []
        since, before = self._first or (now, measured)
        if measured > before and now > since:
            parts.append(f"{(measured - before) / (now - since):.1f} trials/s")
        if state == "running" and eta_seconds is not None and measured < requested:
            parts.append(f"{_clock_time(eta_seconds)} left")
        found = "waiting for a worker" if state == "queued" else "tuning"
        if best_us is not None:
            found = f"best {best_us:.2f} µs"
        if state == "running" and measured >= requested:
            parts.append("choosing among the fastest")
        self._bar.update(
            self._task,
            description=found,
            total=requested,
            completed=measured,
            pace=", ".join(parts),
        )

    def show_stored(self, job: Job) -> None:
        """Where a job stands by what is stored of it."""
        self.show(
            state=job.state,
            requested=job.trials,
            measured=job.trials_measured,
            failed=job.trials_failed,
            best_us=job.best["time_us"] if job.best else None,
            eta_seconds=job.eta_seconds,
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
