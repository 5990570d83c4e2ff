"""The choice of a job's plan: its list, MetaSchedule's search, or the spaces of its templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy.engine import Engine

import templates
from db.contract.job import Job
from db.records import listed
from templates.template import Template
from templates.workload import Workload
from tuner.device.cpu_facts import threads as host_threads
from tuner.device.device import Device
from tuner.errors import NothingWorked
from tuner.plan.listed import ListedPlan
from tuner.plan.plan import Plan
from tuner.plan.traced import TracedPlan
from tuner.search import METASCHEDULE


def make_plan(
    engine: Engine,
    job: Job,
    device: Device,
    seed: int,
    among: Sequence[Template[Any]] | None,
    check: Callable[[], None],
) -> Plan:
    """Return the plan of a job, which follows the job's list if it has one, else its search.

    ``among`` restricts the plan to these templates; None is no restriction. ``check()`` is called
    repeatedly while the plan waits for MetaSchedule's search, and may raise. Raises NothingWorked
    if the order's templates leave nothing to try.
    """
    workload = templates.parse_key(job.workload_key)
    others = job.templates is None
    if not others:
        among = _ordered_templates(job, workload, device, among)
    if job.search == METASCHEDULE:
        threads = host_threads() if job.seed is None else 1  # a seed needs a single thread
        return TracedPlan(workload, device, seed, threads, among, check)
    if job.search not in listed.SEARCHES:
        return Plan(workload, device, job.search, seed, among, others=others)
    return ListedPlan(workload, device, listed.of_job(engine, job.id), among, others=others)


def _ordered_templates(
    job: Job, workload: Workload, device: Device, among: Sequence[Template[Any]] | None
) -> list[Template[Any]]:
    """Return the templates that the order names and that apply here.

    Raises NothingWorked if there are none, or if the search is MetaSchedule's.
    """
    named = ", ".join(job.templates or ())
    if job.search == METASCHEDULE:
        raise NothingWorked(
            f"metaschedule searches without templates, so {named} can't be chosen; order another "
            "search"
        )
    applying = templates.templates_for(workload, device.limits) if among is None else among
    chosen = [template for template in applying if template.name in (job.templates or ())]
    if not chosen:
        known = ", ".join(template.name for template in applying)
        raise NothingWorked(
            f"of the templates ordered ({named}) none applies to {workload.key} on {device.name}; "
            f"those that do: {known}"
        )
    return chosen
