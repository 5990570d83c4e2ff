"""Plans of jobs that try a list of configurations, and the choice of a job's plan.

A list holds imported configurations, or the configuration that a neighbour lends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy.engine import Engine

import templates
from db.contract.job import Job
from db.records import listed as storage
from db.records.listed import ListedConfig
from db.results.trials import NewTrial
from templates.errors import InvalidConfig
from templates.naive import naive_on
from templates.spaces.union import UnionSpace
from templates.template import Template
from templates.workload import Workload
from tuner.device.cpu_facts import threads as host_threads
from tuner.device.device import Device
from tuner.errors import NothingWorked
from tuner.measure.versions import TVM
from tuner.plan.plan import Plan
from tuner.plan.traced import TracedPlan
from tuner.search import METASCHEDULE, Strategy


class ListSearch(Strategy):
    """A strategy that proposes the indices in ``listed``, in order, and learns nothing."""

    name = "listed"
    listed: Sequence[int] = ()

    def propose(self, count: int) -> list[int]:
        return [index for index in self.listed if index not in self.seen][:count]


class ListedPlan(Plan):
    """A plan that tries the listed configurations that are in this device's space.

    ``refused`` holds the other listed configurations with the reasons: they are not in the space,
    or of another version of their template. ``among`` and ``others`` are as in :class:`Plan`, but
    None for ``among`` takes all templates that apply.
    """

    def __init__(
        self,
        workload: Workload,
        device: Device,
        listed: Sequence[ListedConfig],
        among: Sequence[Template[Any]] | None,
        *,
        others: bool = True,
    ) -> None:
        if among is None:  # a list may also name templates that are not searched by default
            among = templates.templates_for(workload, device.limits)
        super().__init__(workload, device, "grid", None, among, others=others)
        if others:  # the naive schedule is in every last round: another machine's best may be one
            self.space = UnionSpace([*self._spaces.values(), naive_on(device.kind).space()])
        self.refused: list[tuple[ListedConfig, str]] = []
        indices: dict[int, None] = {}
        for each in listed:
            try:
                index = self.space.index(each.config)
            except InvalidConfig as error:
                self.refused.append((each, str(error)))
                continue
            version = self.version(each.config)
            if each.template_version == version:
                indices[index] = None
            else:
                reason = f"version: {each.template_version} is another program than {version}"
                self.refused.append((each, reason))
        self.search = ListSearch(self.space, self._features, None)
        self.search.listed = list(indices)

    def skipped(self, device_id: int) -> list[NewTrial]:
        """Return the refused configurations as trials of status ``skipped``."""
        return [
            NewTrial(
                device_id=device_id,
                config=each.config,
                template=each.config["template"],
                template_version=each.template_version,
                tvm_version=TVM,
                status="skipped",
                time_us=None,
                timing=None,
                max_error=None,
                error=reason,
                seconds={},
            )
            for each, reason in self.refused
        ]


def plan_of(
    engine: Engine,
    job: Job,
    device: Device,
    seed: int,
    among: Sequence[Template[Any]] | None,
    check: Callable[[], None],
) -> Plan:
    """Return the plan of a job: of its list if it has one, else of its search.

    ``among`` restricts the plan to these templates; None is no restriction. ``check()`` is called
    repeatedly while the plan waits for MetaSchedule's search, and may raise. Raises NothingWorked
    if the order's templates leave nothing to try.
    """
    workload = templates.parse_key(job.workload_key)
    others = job.templates is None
    if not others:
        among = _restricted(job, workload, device, among)
    if job.search == METASCHEDULE:
        threads = host_threads() if job.seed is None else 1  # a seed repeats nothing on several
        return TracedPlan(workload, device, seed, threads, among, check)
    if job.search not in storage.SEARCHES:
        return Plan(workload, device, job.search, seed, among, others=others)
    return ListedPlan(workload, device, storage.of_job(engine, job.id), among, others=others)


def _restricted(
    job: Job, workload: Workload, device: Device, among: Sequence[Template[Any]] | None
) -> list[Template[Any]]:
    """Return the templates that the order names and that apply here.

    Raises NothingWorked if there are none, or if the search is MetaSchedule's.
    """
    named = ", ".join(job.templates or ())
    if job.search == METASCHEDULE:
        raise NothingWorked(f"metaschedule searches without templates, and not by {named} alone")
    applying = templates.templates_for(workload, device.limits) if among is None else among
    chosen = [template for template in applying if template.name in (job.templates or ())]
    if not chosen:
        known = ", ".join(template.name for template in applying)
        raise NothingWorked(
            f"of the templates ordered ({named}) none applies to {workload.key} on {device.name}; "
            f"those that do: {known}"
        )
    return chosen
