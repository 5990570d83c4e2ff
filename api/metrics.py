"""Prometheus metrics of one application."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from sqlalchemy import Engine, func, select

from db.engine import reading
from db.models import jobs
from db.queue import STATES

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Histogram(
            "convtune_http_request_seconds",
            "Time to answer a request",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._jobs = Gauge("convtune_jobs", "Jobs by state", ("state",), registry=self._registry)
        self._trials = Gauge(
            "convtune_trials", "Trials by outcome", ("outcome",), registry=self._registry
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).observe(seconds)

    def render(self, engine: Engine) -> bytes:
        """The text format. Raises DatabaseUnavailable."""
        # The jobs' own sums: counting a million trials at each scrape would not be cheap.
        query = select(
            jobs.c.state, func.count(), func.sum(jobs.c.trials_ok), func.sum(jobs.c.trials_failed)
        ).group_by(jobs.c.state)
        with reading(engine) as connection:
            rows = {state: counts for state, *counts in connection.execute(query)}
        for state in STATES:
            self._jobs.labels(state).set(rows.get(state, (0,))[0])
        self._trials.labels("ok").set(sum(row[1] for row in rows.values()))
        self._trials.labels("failed").set(sum(row[2] for row in rows.values()))
        return generate_latest(self._registry)
