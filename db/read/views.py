"""Queries for web pages: parts of a job's trials, jobs of the same workload, and lists of bests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import Engine, func, select

from db.contract.job import Job
from db.queue.jobs import job_columns, require_job_id
from db.read.in_words import noise_in_words
from db.results.fastest import faster_peer, fastest_peer
from db.sql.columns import storable, utc
from db.sql.pages import Page, page, read_cursor
from db.sql.tables import bests, devices, jobs, trials, workloads
from db.sql.transaction import reading

NUMBERS = 500  # the most in one statement: older SQLite takes no more than 999 parameters


@dataclass(frozen=True)
class Point:
    """The part of a trial that a curve shows."""

    number: int
    status: str
    time_us: float | None
    created_at: float  # seconds since 1970


@dataclass(frozen=True)
class FoundBest:
    """The part of a best that a list shows."""

    id: int
    operator: str
    workload: dict[str, Any]
    device_id: int
    device_kind: str
    device_name: str
    device_arch: str
    template: str
    templates: list[str] | None  # the templates that its order was restricted to
    threads: int | None  # the CPU threads that it runs on; None on a GPU
    time_us: float  # warm median
    peer: Mapping[str, Any] | None  # the baseline that was faster
    noisy: str | None  # why its figures can't be trusted
    gflops: float | None
    fraction: float | None  # of the roofline
    bound: str | None
    trials_measured: int
    tuned_at: datetime


def points(engine: Engine, job_id: str) -> list[Point]:
    """Return all trials of a job in the order of their numbers; none if there is no such job."""
    query = (
        select(trials.c.number, trials.c.status, trials.c.time_us, trials.c.created_at)
        .join(jobs, jobs.c.seq == trials.c.job_seq)
        .where(jobs.c.id == require_job_id(job_id))
        .order_by(trials.c.number)
    )
    with reading(engine) as connection:
        return [Point(*row) for row in connection.execute(query)]


def configs(engine: Engine, job_id: str, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the configurations of the job's trials with these numbers, by number."""
    query = (
        select(trials.c.number, trials.c.config)
        .join(jobs, jobs.c.seq == trials.c.job_seq)
        .where(jobs.c.id == require_job_id(job_id))
    )
    found: dict[int, dict[str, Any]] = {}
    with reading(engine) as connection:
        for first in range(0, len(numbers), NUMBERS):
            part = query.where(trials.c.number.in_(numbers[first : first + NUMBERS]))
            found |= {row.number: row.config for row in connection.execute(part)}
    return found


def samples(
    engine: Engine, job_id: str, most: int
) -> list[tuple[dict[str, Any], str, float | None]]:
    """Return configuration, status and time (µs) of at most ``most`` trials, evenly spread over the
    job."""
    with reading(engine) as connection:
        seq = connection.execute(
            select(jobs.c.seq).where(jobs.c.id == require_job_id(job_id))
        ).scalar()
        count = select(func.count()).select_from(trials).where(trials.c.job_seq == seq)
        step = math.ceil(connection.execute(count).scalar_one() / most)
        query = select(trials.c.config, trials.c.status, trials.c.time_us)
        query = query.where(trials.c.job_seq == seq).order_by(trials.c.number)
        if step > 1:
            query = query.where(trials.c.number % step == 0)
        return [(config, status, time) for config, status, time in connection.execute(query)]


def find_bests(
    engine: Engine,
    operator: str | None = None,
    shape: Mapping[str, int | float | str] | None = None,
    device_id: int | None = None,
    limit: int = 50,
    cursor: str | None = None,
    usual: Mapping[str, Any] = MappingProxyType({}),
) -> Page[FoundBest]:
    """Return a page of the bests whose workload has all values in ``shape``, newest first. A best
    that replaced another has the place of the replaced one.

    ``usual`` has the defaults of workloads' fields. A workload that was stored before a field was
    introduced lacks it, and is compared with the default. Raises BadCursor."""
    query = (
        select(
            bests,
            workloads.c.operator,
            workloads.c.workload,
            devices.c.kind.label("device_kind"),
            devices.c.name.label("device_name"),
            devices.c.arch.label("device_arch"),
        )
        .join(workloads, workloads.c.id == bests.c.workload_id)
        .join(devices, devices.c.id == bests.c.device_id)
        .order_by(bests.c.id.desc())
        .limit(limit + 1)
    )
    if operator is not None:
        query = query.where(workloads.c.operator == operator)
    if device_id is not None:
        query = query.where(bests.c.device_id == device_id)
    for name, value in (shape or {}).items():
        field = workloads.c.workload[name]
        stored = (
            field.as_boolean()
            if isinstance(value, bool)
            else field.as_integer()
            if isinstance(value, int)
            else field.as_float()
            if isinstance(value, float)
            else field.as_string()
        )
        if usual.get(name) is not None:
            stored = func.coalesce(stored, usual[name])
        query = query.where(stored == value)
    if cursor is not None:
        query = query.where(bests.c.id < read_cursor("bests", cursor))
    texts = [operator, *(value for value in (shape or {}).values() if isinstance(value, str))]
    if not all(storable(text) for text in texts if text is not None):
        return Page([], None)
    with reading(engine) as connection:
        rows = connection.execute(query).mappings().all()
    found = [
        FoundBest(
            **{name: row[name] for name in _LISTED},
            templates=row["templates"].split(",") if row["templates"] else None,
            threads=row["threads"] or None,
            peer=faster_peer(row["timing"], row["time_us"], row["baselines"]),
            noisy=noise_in_words(row["timing"]),
            fraction=row["roofline"].get("fraction"),
            bound=row["roofline"].get("bound"),
            tuned_at=utc(row["tuned_at"]),
        )
        for row in rows
    ]
    return page("bests", limit, found, [best.id for best in found])


def fastest_peers(engine: Engine, job_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the fastest peer, as ``fastest_peer`` returns it, of each of these jobs by its id.

    Jobs are left out if they made none of the stored bests, or if theirs was timed beside no
    peer."""
    query = (
        select(jobs.c.id, bests.c.timing, bests.c.time_us, bests.c.baselines)
        .join(bests, (bests.c.workload_id == jobs.c.workload_id) & (bests.c.job_seq == jobs.c.seq))
        .where(jobs.c.id.in_(job_ids))
        .order_by(bests.c.time_us.desc())  # of several bests of a job, the dict keeps the last
    )
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    found = {row.id: fastest_peer(row.timing, row.time_us, row.baselines) for row in rows}
    return {job_id: peer for job_id, peer in found.items() if peer}


def jobs_alike(engine: Engine, job: Job, most: int) -> list[Job]:
    """Return at most ``most`` other jobs of the same workload, newest first."""
    query = (
        job_columns()
        .where(workloads.c.key == job.workload_key, jobs.c.id != job.id)
        .order_by(jobs.c.seq.desc())
        .limit(most)
    )
    with reading(engine) as connection:
        return [Job.from_row(row) for row in connection.execute(query).mappings()]


def count_bests(engine: Engine) -> dict[int, int]:
    """Return the number of bests of each device that has any, by the device's id."""
    query = select(bests.c.device_id, func.count().label("bests")).group_by(bests.c.device_id)
    with reading(engine) as connection:
        return {row.device_id: row.bests for row in connection.execute(query)}


_DERIVED = ("templates", "threads", "peer", "noisy", "fraction", "bound", "tuned_at")
_LISTED = tuple(name for name in FoundBest.__dataclass_fields__ if name not in _DERIVED)
