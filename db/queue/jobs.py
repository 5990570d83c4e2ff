"""Reading jobs: one by its id or number, and lists."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Select, or_, select

from db.contract.job import Job
from db.contract.order import JobFilter, fold
from db.sql import ids
from db.sql.columns import storable
from db.sql.errors import NotFound
from db.sql.pages import Page, page, read_cursor
from db.sql.tables import ENDED, UNENDED, jobs, workloads
from db.sql.transaction import reading

EVERY = JobFilter()


def templates_text(templates: Sequence[str] | None) -> str:
    """Return an order's templates in the form of the column ``bests.templates``: joined by commas,
    and empty if the order is not restricted."""
    return ",".join(templates or ())


def job_columns() -> Select[Any]:
    """Return a SELECT of jobs with the columns that ``Job.from_row`` reads."""
    return select(
        jobs, workloads.c.key.label("workload_key"), workloads.c.operator, workloads.c.workload
    ).join(workloads, workloads.c.id == jobs.c.workload_id)


def by_seq(connection: Connection, seq: int) -> Job:
    """Return the job with this number, which must exist."""
    row = connection.execute(job_columns().where(jobs.c.seq == seq)).mappings().one()
    return Job.from_row(row)


def by_seqs(connection: Connection, seqs: Collection[int]) -> dict[int, Job]:
    """Return the jobs with these numbers, by number; those that do not exist are left out."""
    rows = connection.execute(job_columns().where(jobs.c.seq.in_(list(seqs)))).mappings()
    return {row["seq"]: Job.from_row(row) for row in rows}


def require_job_id(job_id: str) -> str:
    """Return the id if it has the form of a job's id; raise NotFound if it has not. The job need
    not exist."""
    return ids.require_id_format("job", job_id)


def resolve_id(engine: Engine, prefix: str) -> str:
    """Return the id of the only job whose id begins with ``prefix``.

    Raises NotFound, and AmbiguousId if there are several."""
    return ids.find_by_prefix(engine, jobs, "job", prefix)


def get(engine: Engine, job_id: str) -> Job:
    """Return a job by its id. Raises NotFound."""
    with reading(engine) as connection:
        query = job_columns().where(jobs.c.id == require_job_id(job_id))
        row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound("job", job_id)
    return Job.from_row(row)


def list_jobs(
    engine: Engine, wanted: JobFilter = EVERY, limit: int = 50, cursor: str | None = None
) -> Page[Job]:
    """Return a page of at most ``limit`` jobs that pass the filter, newest first. ``cursor`` is the
    ``next_cursor`` of the page before. Raises BadCursor."""
    query = job_columns().order_by(jobs.c.seq.desc()).limit(limit + 1)
    if wanted.state is not None:
        part = UNENDED if wanted.state in ("queued", "running") else ENDED
        query = query.where(jobs.c.state == wanted.state, part)
    if wanted.operator is not None:
        query = query.where(workloads.c.operator == wanted.operator)
    if wanted.label is not None:
        # the second text finds rows of earlier releases, which folded only the case
        parts = (fold(wanted.label), wanted.label.casefold())
        query = query.where(
            or_(*(jobs.c.label_folded.contains(part, autoescape=True) for part in parts))
        )
    if cursor is not None:
        query = query.where(jobs.c.seq < read_cursor("jobs", cursor))
    if not all(storable(text) for text in vars(wanted).values() if text is not None):
        return Page([], None)
    with reading(engine) as connection:
        rows = connection.execute(query).mappings().all()
    return page("jobs", limit, [Job.from_row(row) for row in rows], [row["seq"] for row in rows])
