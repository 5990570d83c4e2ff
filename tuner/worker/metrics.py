"""Prometheus metrics of one worker since its start, served on a port of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from db.results.trials import NewTrial
from tuner.errors import TunerError

log = structlog.get_logger()

SECONDS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class WorkerMetrics:
    """Counts of a worker's trials and jobs, times of trials, and the current job."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._trials = Counter(
            "convtune_worker_trials", "Trials by status", ("status",), registry=self._registry
        )
        self._seconds = Histogram(
            "convtune_worker_trial_seconds",
            "Time to schedule, build, check and run a trial",
            ("phase",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._jobs = Counter(
            "convtune_worker_jobs",
            "Jobs by how they left this worker",
            ("outcome",),
            registry=self._registry,
        )
        self._current = Gauge(
            "convtune_worker_current_job",
            "1 for the job at hand; no sample while idle",
            ("job_id",),
            registry=self._registry,
        )

    def count_trial(self, trial: NewTrial) -> None:
        """Count a trial by its status, and the seconds of its phases."""
        self._trials.labels(trial.status).inc()
        for phase, seconds in trial.seconds.items():
            self._seconds.labels(phase).observe(seconds)

    def job_begins(self, job_id: str) -> None:
        self._current.clear()
        self._current.labels(job_id).set(1)

    def job_ends(self, outcome: str) -> None:
        """Count the current job by its outcome: the state in which it ended, or ``released``,
        ``lost`` or ``left``."""
        self._current.clear()
        self._jobs.labels(outcome).inc()

    @contextmanager
    def served(self, host: str, port: int | None) -> Iterator[None]:
        """Serve the metrics while the context lasts; without a port, do nothing.

        Raises TunerError if the address can't be listened on.
        """
        if port is None:
            yield
            return
        try:
            server, thread = start_http_server(port, host, self._registry)
        except (OSError, OverflowError) as error:
            raise TunerError(
                f"no metrics on {host}, port {port}: {error}; choose another with "
                "TUNER_METRICS_HOST and TUNER_METRICS_PORT"
            ) from error
        log.info("metrics_served", host=host, port=server.server_port)
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
