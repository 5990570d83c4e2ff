"""Prometheus metrics of one application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy import Engine

from db.queue import STATES
from db.results.totals import PHASES, Totals, totals
from db.sql.choices import TrialStatus

DEVICE_KINDS = ("cpu", "cuda")
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class Metrics:
    """The request times of one application, and totals of its database when they are read."""

    def __init__(self) -> None:
        self._requests = Histogram(
            "convtune_http_request_seconds",
            "Time to answer a request; for an event stream, to its first byte",
            ("method", "route", "status"),
            registry=None,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. ``route`` is the path as declared, so that ids make no labels."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).observe(seconds)

    def render(self, engine: Engine, listeners: int) -> bytes:
        """Return all metrics in Prometheus' text format. Raise DatabaseUnavailable.

        ``listeners`` is the number of open event streams."""
        registry = CollectorRegistry()
        registry.register(self._requests)
        registry.register(_TotalsCollector(totals(engine), listeners))
        return generate_latest(registry)


class _TotalsCollector:
    """A collector of the totals that were read from the database for one answer."""

    def __init__(self, stored: Totals, listeners: int) -> None:
        self._stored, self._listeners = stored, listeners

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        stored = self._stored
        jobs = GaugeMetricFamily("convtune_jobs", "Jobs by state", labels=["state"])
        for state in STATES:
            jobs.add_metric([state], stored.jobs.get(state, 0))
        yield jobs
        yield GaugeMetricFamily(
            "convtune_queue_age_seconds",
            "How long the oldest queued job has waited",
            stored.queued_seconds,
        )
        trials = CounterMetricFamily("convtune_trials", "Trials by status", labels=["status"])
        spent = CounterMetricFamily(
            "convtune_trial_seconds",
            "Time that trials took, by status and phase",
            labels=["status", "phase"],
        )
        for status in get_args(TrialStatus):
            trials.add_metric([status], stored.trials.get(status, 0))
            for phase in PHASES:
                spent.add_metric([status, phase], stored.seconds.get((status, phase), 0.0))
        yield trials
        yield spent
        workers = GaugeMetricFamily(
            "convtune_workers", "Living workers by kind of device", labels=["kind", "state"]
        )
        for kind in DEVICE_KINDS:
            workers.add_metric([kind, "working"], stored.workers.get((kind, True), 0))
            workers.add_metric([kind, "waiting"], stored.workers.get((kind, False), 0))
        yield workers
        yield GaugeMetricFamily(
            "convtune_event_streams", "Open event streams of this process", self._listeners
        )
