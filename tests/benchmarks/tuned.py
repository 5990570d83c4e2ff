"""Functions that benchmarks of tuning share: run jobs on an empty database, describe the run, and
write a page with its figures."""

from __future__ import annotations

import json
import logging
import platform
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy.engine import Engine

import templates
from db import queue
from db.contract.job import Job
from db.contract.order import PREDICTION, Baselines, JobOrder
from db.results import best as bests
from db.results import trials
from db.results.trials import Trial
from db.sql.engine import open_engine
from db.sql.schema import migrate
from tests.benchmarks.delivered import fresh
from tuner.device.device import Device
from tuner.measure.versions import installed_peers
from tuner.settings import Settings
from tuner.worker.worker import Worker

SEARCH = "xgb"


class JobFailed(Exception):
    """A shape has no best; the message says why."""


@dataclass(frozen=True)
class Tuned:
    """One shape's job: its best with the baselines, and how quickly its trials were made."""

    operator: str
    workload: dict[str, Any]
    best: dict[str, Any]
    by_template: dict[str, float]  # each template's fastest trial, warm median in µs
    trials: int
    failed: dict[str, int]  # trials without a time, by status
    found_at: int | None  # the winner's trial, from 1; None if the winner is no trial
    trials_per_second: float
    seconds_per_trial: dict[str, float]  # mean of each step; builds overlap with runs on a GPU
    phases: dict[str, float]  # seconds up to the first trial, of the search, of the finals
    job_seconds: float


@dataclass(frozen=True)
class Predicted:
    """One shape's answer to ``match=predicted``. ``seconds`` is the time from order to answer."""

    config: dict[str, Any]
    time_us: float
    trials: int
    failed: dict[str, int]
    phases: dict[str, float]
    seconds: float


class Bench:
    """A worker on a database that was empty when it began."""

    def __init__(self, url: str, engine: Engine, device: Device, worker: Worker) -> None:
        self._url, self._engine, self._device, self._worker = url, engine, device, worker

    def tune(
        self,
        operator: str,
        shape: dict[str, Any],
        count: int,
        seed: int | None,
        *,
        baselines: Baselines = "all",
    ) -> Tuned:
        """Run a shape's job of at most ``count`` trials and return its result.

        Raise JobFailed if it finds no best or has no trial.
        """
        workload = templates.operator(operator).workload.model_validate(shape)
        order = JobOrder.of(
            workload,
            target=self._device.kind,
            trials=count,
            search=SEARCH,
            on_existing="retune",
            seed=seed,
            baselines=baselines,
            warm_start=False,  # earlier shapes of the benchmark are in the same database
        )
        ended, best = self._ended(order)
        stored = trials.list_trials(self._engine, ended.id, limit=count).items
        if not stored:
            raise JobFailed(f"{workload.key}: every configuration was known before the search")
        phases = _phases(ended, stored)
        numbers = [trial.number for trial in stored if trial.config == best.config]
        return Tuned(
            operator,
            order.workload,
            {
                "config": best.config,
                "timing": best.timing,
                "gflops": best.gflops,
                "roofline": best.roofline,
                "max_error": best.max_error,
                "baselines": best.baselines,
                "versions": best.versions,
                "threads": best.threads,
            },
            _by_template(stored),
            len(stored),
            _failed(stored),
            numbers[0] if numbers else None,
            *pace(stored),
            phases,
            sum(phases.values()),
        )

    def predict(self, operator: str, shape: dict[str, Any]) -> Predicted:
        """Return the answer for a shape without a best. Raise JobFailed if there is none."""
        begun = time.perf_counter()
        workload = templates.operator(operator).workload.model_validate(shape)
        ended, best = self._ended(JobOrder.of(workload, target=self._device.kind, **PREDICTION))
        seconds = time.perf_counter() - begun
        stored = trials.list_trials(self._engine, ended.id).items
        phases = _phases(ended, stored)
        return Predicted(best.config, best.time_us, len(stored), _failed(stored), phases, seconds)

    def delivered(self, tuned: Tuned) -> dict[str, Any] | None:
        """Time the best's call in processes that have only loaded its library; None on a GPU."""
        if self._device.kind != "cpu":
            return None
        return fresh(self._url, tuned.operator, tuned.workload)

    def _ended(self, order: JobOrder) -> tuple[Job, bests.Best]:
        """Run an order's job to its end; return it and the workload's best. Raise JobFailed if it
        did not succeed."""
        kind = self._device.kind
        job, _ = queue.submit(self._engine, order)
        claimed = queue.claim(self._engine, self._worker.name, (kind,), job_id=job.id)
        assert claimed is not None
        self._worker.take(claimed)
        ended = queue.get(self._engine, job.id)
        if ended.state != "succeeded":
            raise JobFailed(f"{order.workload_key}: {ended.error}")
        return ended, bests.lookup(self._engine, order.workload_key, kind=kind)[0]


@contextmanager
def bench(device: Device, only: Collection[str] | None = None) -> Iterator[Bench]:
    """Yield a worker on an empty database. With ``only``, only the templates of these names are
    searched."""
    # one log line for each trial would bury the page
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/benchmark.db"
        engine = open_engine(url)
        migrate(engine)
        worker = Worker(engine, device, Settings(), only)
        try:
            yield Bench(url, engine, device, worker)
        finally:
            worker.close()


def provenance(command: str, device: Device) -> dict[str, Any]:
    """Return where and when a benchmark ran: its command, date, device, host and peers."""
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "device": device.fingerprint(),
        "host": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "peers": installed_peers(),
    }


def stated(run: dict[str, Any], versions: dict[str, str]) -> str:
    """Return a run's provenance and versions as a text."""
    device = run["device"]
    software = ", ".join(f"{name} {each}" for name, each in (versions | run["peers"]).items())
    return (
        f"{device['name']} ({device['arch']}), driver {device['driver']}, {run['date']}, "
        f"{run['host']}. {software}."
    )


def compared(baseline: dict[str, Any]) -> str:
    """Return a baseline's name and time. An error is added, because it makes the comparison
    unfair."""
    time_us, error = baseline["time_us"], baseline.get("error")
    timed = "not timed" if time_us is None else f"{time_us:.2f}"
    return f"{baseline['name']} {timed}" + (f" ({error})" if error else "")


def knobs(config: dict[str, Any]) -> str:
    """Return a configuration, or any dict, as "name=value name=value"."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def write(path: Path, result: dict[str, Any], text: str) -> None:
    """Write figures as ``path``.json and a page as ``path``.md; ``path`` has no suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(path.name + ".json").write_text(json.dumps(result, indent=1) + "\n")
    path.with_name(path.name + ".md").write_text(text)


def _by_template(stored: list[Trial]) -> dict[str, float]:
    fastest: dict[str, float] = {}
    for trial in stored:
        if trial.time_us is not None:
            known = fastest.get(trial.template, trial.time_us)
            fastest[trial.template] = min(known, trial.time_us)
    return fastest


def _failed(stored: list[Trial]) -> dict[str, int]:
    failed: dict[str, int] = {}
    for trial in stored:
        if trial.status != "ok":
            failed[trial.status] = failed.get(trial.status, 0) + 1
    return failed


def _phases(job: Job, stored: list[Trial]) -> dict[str, float]:
    assert job.started_at and job.finished_at
    ends = job.started_at, stored[0].created_at, stored[-1].created_at, job.finished_at
    names = "first trial", "search", "finalists"
    return {
        name: (end - start).total_seconds()
        for name, (start, end) in zip(names, pairwise(ends), strict=True)
    }


def pace(stored: list[Trial]) -> tuple[float, dict[str, float]]:
    """Return the trials a second and the mean seconds of each step of a trial.

    The first tenth of the trials is left out, because these wait for the processes to import TVM.
    """
    warm = stored[len(stored) // 10 :]
    span = (warm[-1].created_at - warm[0].created_at).total_seconds()
    steps = ("schedule", "build", "check", "run")
    return (len(warm) - 1) / span if span else 0.0, {
        step: sum(trial.seconds.get(step, 0.0) for trial in warm) / len(warm) for step in steps
    }
