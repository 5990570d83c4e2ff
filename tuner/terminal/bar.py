"""The progress bar of a job or a model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

if TYPE_CHECKING:
    from db.contract.job import Job


class JobBar:
    """A progress bar on standard error: best so far, trials, failures, pace and time left.

    If standard error is no terminal, only the last state is printed. ``clock`` returns seconds.
    """

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
        """Show the job's current state.

        The pace counts only trials since the bar first saw the job running, because a job may
        already have trials of an earlier attempt.
        """
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
        """Show the state of a job as it is stored."""
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
