"""The plan of a job with MetaSchedule's search, whose configurations are traces without a space."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from templates.records.trace import Trace
from templates.template import Template
from templates.workload import Workload
from tuner.build.builder import COMPILER
from tuner.device.device import Device
from tuner.errors import ChildFailed, NothingWorked
from tuner.plan.evolution import Setup, propose, search_target
from tuner.plan.plan import Config, Plan
from tuner.process.child import Child

log = structlog.get_logger()

ASK_SECONDS = 1800.0
"""Limit for one :meth:`TracedPlan.ask`. A generation takes minutes on one thread if few schedules
fit a GPU."""


class TracedPlan(Plan):
    """A plan whose search is a child process, from the first :meth:`ask` to :meth:`close`.

    ``threads`` is how many threads the search may use. ``check()`` is called repeatedly while the
    plan waits for the search, and may raise. If the search fails, the job continues with the trials
    that have been measured by then.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        seed: int,
        threads: int,
        among: Sequence[Template[Any]] | None,
        check: Callable[[], None],
    ) -> None:
        super().__init__(workload, device, "grid", None, among)
        self._setup = Setup(workload.key, json.dumps(search_target(device)), seed, threads)
        self._check = check
        self._child = Child(importing=COMPILER)
        self._new_results: list[tuple[Config, float | None]] = []
        self._worked = self._failed = False

    @property
    def size(self) -> None:
        return None

    def ask(self, count: int) -> list[Config]:
        """Return the next configurations, an empty list once the search has ended.

        Raises NothingWorked if the search fails before any trial has worked.
        """
        if count <= 0 or self._failed:
            return []
        told, self._new_results = self._new_results, []
        try:
            return self._child.call(
                propose, self._setup, told, count, timeout=ASK_SECONDS, check=self._check
            )
        except ChildFailed as error:
            self._failed = True
            if not self._worked:
                raise NothingWorked(f"MetaSchedule's search failed: {error}") from error
            log.warning("search_failed", reason=str(error))
            return []

    def tell(self, results: Sequence[tuple[Config, float | None]]) -> None:
        for config, time_us in results:
            if config["template"] == Trace.name:
                self._new_results.append((config, time_us))
                self._worked = self._worked or time_us is not None

    def close(self) -> None:
        self._child.close()
