"""Reports of jobs and trials: lines for people, dicts for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console

import templates
from db.contract.job import Job, JobShown, job_fields
from db.contract.order import changed_terms
from db.contract.trial import TrialShown
from db.fleet.devices import Device
from db.results.trials import Trial
from templates.spaces.knob import brief
from tuner.terminal.options import as_options

ALWAYS_SHOWN = ("target", "trials", "search")
"""The terms that have a line of their own, whatever their value."""
STYLES = {"succeeded": "green", "failed": "red", "running": "cyan"}


def job_json(job: Job, device: Device | None, waiting: str | None) -> dict[str, Any]:
    """Return the fields of ``GET /jobs/{id}``, without its links."""
    return JobShown(**job_fields(job, device, waiting)).model_dump()


def trial_json(trial: Trial) -> dict[str, Any]:
    """Return the fields of an item of ``GET /jobs/{id}/trials``."""
    return TrialShown.model_validate(trial).model_dump()


def show_jobs(jobs: Iterable[Job], console: Console) -> None:
    """Print one line for each job, in columns that programs such as ``cut`` can take apart."""
    for job in jobs:
        style = STYLES.get(job.state, "default")
        trials = f"{job.trials_measured:>5}/{job.trials:<5}"
        console.print(
            f"{job.id}  [{style}]{job.state:9}[/]  {trials}  {_best(job):>14}"
            f"  {job.operator} {_shape(job)}",
            highlight=False,
            soft_wrap=True,
        )


def show_job(job: Job, device: Device | None, waiting: str | None, console: Console) -> None:
    """Print a job, with one line for each fact; ``waiting`` says why no worker takes it."""
    stopping = " (to be cancelled)" if job.cancel_requested and not job.ended else ""
    counts = f"{job.trials_measured} of {job.trials}"
    lines = {
        "job": job.id,
        "state": job.state + stopping,
        "operator": f"{job.operator} {_shape(job)}",
        "target": job.target,
        "device": device and f"{device.name} ({device.arch})",
        "search": job.search,
        "trials": f"{counts}: {job.trials_ok} ok, {job.trials_failed} failed",
        "guided": job.warmed and "by {trials} trials of {jobs} other jobs".format(**job.warmed),
        **{
            name: _in_words(value)
            for name, value in changed_terms(job).items()
            if name not in ALWAYS_SHOWN
        },
        "best": job.best and _best(job),
        "": job.best and _knobs(job.best["config"]),
        "to go": job.eta_seconds and job.state == "running" and f"{job.eta_seconds:.0f} s",
        "waits": waiting,
        "worker": job.worker and f"{job.worker}, attempt {job.attempt}",
        "error": job.error,
        "ordered": job.created_at.isoformat(),
        "started": job.started_at and job.started_at.isoformat(),
        "ended": job.finished_at and job.finished_at.isoformat(),
    }
    for name, value in lines.items():
        if value:
            console.print(f"{name:9} {value}", markup=False, highlight=False, soft_wrap=True)


def show_trial(trial: Trial, console: Console) -> None:
    """Print a trial as one line: number, status, time, configuration, error."""
    error = " ".join((trial.error or "").split())[:100]
    knobs = _knobs(trial.config)
    time_us = f"{trial.time_us:.2f} µs" if trial.time_us is not None else ""
    line = f"{trial.number:>5}  {trial.status:14} {time_us:>14}  {knobs}  {error}".rstrip()
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _best(job: Job) -> str:
    return f"{job.best['time_us']:.2f} µs" if job.best else ""


def _knobs(config: dict[str, Any]) -> str:
    return "  ".join(f"{name}={brief(value)}" for name, value in config.items())


def _shape(job: Job) -> str:
    return as_options(templates.parse_key(job.workload_key))


def _in_words(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
