"""Jobs as values, and reading them."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Select, select
from sqlalchemy.engine import RowMapping

from db.sql.choices import JobState
from db.sql.columns import storable, utc
from db.sql.errors import AmbiguousId, NotFound
from db.sql.models import ENDED, UNENDED, jobs, workloads
from db.sql.pages import Page, page, read_cursor
from db.sql.transaction import reading


@dataclass(frozen=True)
class JobOrder:
    """What a user asks for; two orders are equal when all of it is."""

    operator: str
    workload_key: str
    workload: dict[str, Any]
    target: str  # "auto", "cpu" or "cuda"
    trials: int = 64
    search: str = "xgb"
    on_existing: str = "reuse"  # or "retune"
    budget_seconds: float | None = None
    seed: int | None = None
    patience: int | None = None  # trials without a faster one after which the search ends
    warm_start: bool = True  # whether trials of other workloads may guide the search
    templates: tuple[str, ...] | None = None  # the only ones that may serve it, sorted; None: all


@dataclass(frozen=True)
class Job:
    id: str
    state: JobState
    operator: str
    workload_key: str
    workload: dict[str, Any]
    target: str
    search: str
    on_existing: str
    trials_requested: int
    trials_measured: int
    trials_ok: int
    trials_failed: int
    budget_seconds: float | None
    seed: int | None
    patience: int | None
    warm_start: bool
    templates: tuple[str, ...] | None
    warmed: dict[str, int] | None  # jobs and trials that guide the search
    device_id: int | None  # where it runs or ran
    best: dict[str, Any] | None  # config, time_us, gflops
    eta_seconds: float | None
    attempt: int  # raised by each claim; every write of a worker names it
    released: int  # attempts given back, which are not charged
    cancel_requested: bool
    worker: str | None  # who holds it, or held it last
    error: str | None
    created_at: datetime
    started_at: datetime | None  # of the first attempt
    finished_at: datetime | None

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")

    @classmethod
    def from_row(cls, row: RowMapping) -> "Job":
        fields = {name: row[name] for name in cls.__dataclass_fields__}
        for name in ("created_at", "started_at", "finished_at"):
            fields[name] = None if row[name] is None else utc(row[name])
        fields["templates"] = tuple(row["templates"]) if row["templates"] else None
        return cls(**fields)


def restricted_to(templates: Sequence[str] | None) -> str:
    """The templates of an order as a best is kept by them; empty where it takes all."""
    return ",".join(templates or ())


def job_columns() -> Select[Any]:
    """A SELECT of what Job.from_row reads."""
    return select(
        jobs, workloads.c.key.label("workload_key"), workloads.c.operator, workloads.c.workload
    ).join(workloads, workloads.c.id == jobs.c.workload_id)


def by_seq(connection: Connection, seq: int) -> Job:
    row = connection.execute(job_columns().where(jobs.c.seq == seq)).mappings().one()
    return Job.from_row(row)


def by_seqs(connection: Connection, seqs: Collection[int]) -> dict[int, Job]:
    rows = connection.execute(job_columns().where(jobs.c.seq.in_(list(seqs)))).mappings()
    return {row["seq"]: Job.from_row(row) for row in rows}


def known_id(job_id: str) -> str:
    """The id itself; raises NotFound for what no job can be called, whatever bytes it holds."""
    if not re.fullmatch("[0-9a-f]{32}", job_id):
        raise NotFound("job", job_id)
    return job_id


def named(engine: Engine, begun: str) -> str:
    """The id of the one job whose id begins so. Raises NotFound, AmbiguousId."""
    if not re.fullmatch("[0-9a-f]{1,32}", begun):
        raise NotFound("job", begun)
    query = select(jobs.c.id).where(jobs.c.id.startswith(begun)).order_by(jobs.c.seq.desc())
    with reading(engine) as connection:
        found = connection.execute(query.limit(3)).scalars().all()
    if not found:
        raise NotFound("job", begun)
    if len(found) > 1:
        raise AmbiguousId("job", begun, found)
    return str(found[0])


def get(engine: Engine, job_id: str) -> Job:
    """Raises NotFound."""
    with reading(engine) as connection:
        query = job_columns().where(jobs.c.id == known_id(job_id))
        row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound("job", job_id)
    return Job.from_row(row)


def list_jobs(
    engine: Engine,
    state: str | None = None,
    operator: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[Job]:
    """Newest first. Raises BadCursor."""
    query = job_columns().order_by(jobs.c.seq.desc()).limit(limit + 1)
    if state is not None:
        part = UNENDED if state in ("queued", "running") else ENDED
        query = query.where(jobs.c.state == state, part)
    if operator is not None:
        query = query.where(workloads.c.operator == operator)
    if cursor is not None:
        query = query.where(jobs.c.seq < read_cursor("jobs", cursor))
    if not all(storable(text) for text in (state, operator) if text is not None):
        return Page([], None)
    with reading(engine) as connection:
        rows = connection.execute(query).mappings().all()
    return page("jobs", limit, [Job.from_row(row) for row in rows], [row["seq"] for row in rows])
