"""Reading trials or bests in batches, as records for export.

Each batch is read in a transaction of its own. So a log of a million trials needs no more memory
than one of a thousand, and a client that reads for an hour keeps no connection to the database."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, and_, func, literal, select
from sqlalchemy.engine import RowMapping

from db.queue.jobs import require_job_id
from db.sql.choices import Kept
from db.sql.columns import storable, utc
from db.sql.errors import CorruptArtifact, NotFound
from db.sql.tables import artifacts, best_artifacts, bests, devices, jobs, trials, workloads
from db.sql.transaction import reading

BATCHES = {"trials": 200, "bests": 10}
"""The number of rows in a batch. Turning a trial into text takes 12 KB of memory, and a best's
MetaSchedule record 100 KB, so an export takes a few megabytes, however many rows there are."""


@dataclass(frozen=True)
class Filters:
    """Which records to read. None takes all."""

    operator: str | None = None
    kind: str | None = None  # of device
    device: str | None = None  # its name
    job: str | None = None
    status: str | None = None  # of a trial; every best is ok


@dataclass(frozen=True)
class Record:
    """A configuration of a workload on a device, and its result."""

    operator: str
    workload: dict[str, Any]
    device_kind: str
    device_name: str
    device_arch: str
    template: str
    template_version: int
    tvm_version: str
    config: dict[str, Any]
    status: str
    time_us: float | None  # warm median
    timing: dict[str, Any] | None
    max_error: float | None
    error: str | None
    seconds: dict[str, float]  # spent in schedule, build, check, run
    job: str
    measured_at: datetime
    metaschedule: bytes | None  # of a best: the JSON of its MetaSchedule record


def read(engine: Engine, kept: Kept, filters: Filters) -> Iterator[list[Record]]:
    """Yield the records that are stored when the reading begins, oldest first, in batches.

    Raises NotFound for an unknown job, and CorruptArtifact if a stored MetaSchedule record is
    damaged."""
    wanted = (filters.operator, filters.device, filters.status)
    if not all(storable(text) for text in wanted if text is not None):
        return
    table = trials if kept == "trials" else bests
    query = _narrowed(_trials() if kept == "trials" else _bests(), table, filters)
    last = 0
    with reading(engine) as connection:
        _require_job(connection, filters.job)
        newest = connection.execute(select(func.coalesce(func.max(table.c.id), 0))).scalar_one()
    while last < newest:
        part = query.where(table.c.id > last, table.c.id <= newest).order_by(table.c.id)
        with reading(engine) as connection:
            rows = connection.execute(part.limit(BATCHES[kept])).mappings().all()
        if not rows:
            return
        last = rows[-1]["id"]
        yield [_record(row) for row in rows]


def _require_job(connection: Connection, job: str | None) -> None:
    """Raise NotFound if a job is named that does not exist."""
    if job is not None:
        query = select(jobs.c.seq).where(jobs.c.id == require_job_id(job))
        if connection.execute(query).first() is None:
            raise NotFound("job", job)


_SHARED = (
    jobs.c.id.label("job"),
    workloads.c.operator,
    workloads.c.workload,
    devices.c.kind.label("device_kind"),
    devices.c.name.label("device_name"),
    devices.c.arch.label("device_arch"),
)


def _trials() -> Select[Any]:
    return (
        select(trials, trials.c.created_at.label("measured_at"), *_SHARED)
        .join(jobs, jobs.c.seq == trials.c.job_seq)
        .join(workloads, workloads.c.id == trials.c.workload_id)
        .join(devices, devices.c.id == trials.c.device_id)
    )


def _bests() -> Select[Any]:
    link = and_(best_artifacts.c.best_id == bests.c.id, best_artifacts.c.kind == "record")
    return (
        select(
            bests,
            bests.c.tuned_at.label("measured_at"),
            literal("ok").label("status"),
            artifacts.c.content.label("metaschedule"),
            artifacts.c.sha256,
            *_SHARED,
        )
        .join(jobs, jobs.c.seq == bests.c.job_seq)
        .join(workloads, workloads.c.id == bests.c.workload_id)
        .join(devices, devices.c.id == bests.c.device_id)
        .outerjoin(best_artifacts, link)
        .outerjoin(artifacts, artifacts.c.sha256 == best_artifacts.c.sha256)
    )


def _narrowed(query: Select[Any], table: Table, filters: Filters) -> Select[Any]:
    if filters.operator is not None:
        query = query.where(workloads.c.operator == filters.operator)
    if filters.kind is not None:
        query = query.where(devices.c.kind == filters.kind)
    if filters.device is not None:
        query = query.where(devices.c.name == filters.device)
    if filters.job is not None:
        query = query.where(jobs.c.id == filters.job)
    if filters.status is not None:
        status = trials.c.status if table is trials else literal("ok")
        query = query.where(status == filters.status)
    return query


def _record(row: RowMapping) -> Record:
    shared = {name: row[name] for name in Record.__dataclass_fields__ if name in row}
    content = shared.get("metaschedule")
    if content is not None and hashlib.sha256(content).hexdigest() != row["sha256"]:
        raise CorruptArtifact(row["sha256"])
    absent: dict[str, Any] = {"error": None, "seconds": {}, "metaschedule": None}
    return Record(**{**absent, **shared, "measured_at": utc(row["measured_at"])})
