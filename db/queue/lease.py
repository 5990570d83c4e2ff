"""A worker's hold on a job: every write names the attempt it belongs to, and a lost one is refused.

The fence and the write are one statement, or one transaction whose fence locks the job's row:
between the two no other worker can claim the job."""

import time
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from sqlalchemy import (
    Connection,
    Double,
    Engine,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.engine import RowMapping
from sqlalchemy.sql.dml import ReturningUpdate

from db.contract.job import Job
from db.sql.columns import BigId, now
from db.sql.errors import LeaseLost
from db.sql.models import UNENDED, jobs, workloads
from db.sql.transaction import one_write

LEASE_SECONDS = 30.0
MAX_ATTEMPTS = 3
SILENT_SECONDS = 5.0
"""Who waited for the database as long as that saw it silent, and so did those who hold leases."""

_expired = and_(jobs.c.state == "running", jobs.c.lease_expires_at < now())
_exhausted = jobs.c.attempt - jobs.c.released >= MAX_ATTEMPTS
_given_up = and_(jobs.c.state == "running", or_(_exhausted, jobs.c.cancel_requested))
"""Of a job whose lease ran out: nobody shall take it up again."""


def claim(
    engine: Engine,
    worker: str,
    kinds: Sequence[str],
    lease_seconds: float = LEASE_SECONDS,
    job_id: str | None = None,
    spare_expired: bool = False,
) -> Job | None:
    """The oldest job this worker's kinds of device may run, now held by it; None if none waits.
    With `job_id` only that job will do.

    Jobs whose lease ran out are claimable again. Those among them, of any kind, that were to be
    cancelled, or have used up their attempts, are ended here, as far as they are older. With
    `spare_expired`, or where the database kept this call waiting for SILENT_SECONDS, they are left
    alone: their holders could not renew them, and may be about to."""
    given = {"taker": worker, "for_seconds": lease_seconds, "wanted": job_id}
    given |= {f"kind_{n}": kind for n, kind in enumerate(kinds)}
    while True:
        asked = time.monotonic()
        with one_write(engine) as connection:
            silent = spare_expired or time.monotonic() - asked > SILENT_SECONDS
            take = _take(len(kinds), job_id is not None, silent)
            row = connection.execute(take, given).mappings().first()
        if row is None:
            return None
        if row["state"] == "running":
            return Job.from_row(row)


@cache
def _take(kinds: int, wanted: bool, spare_expired: bool) -> ReturningUpdate[Any]:
    """One statement, so that PostgreSQL is asked once; made once, as that takes longer than it
    does. SQLite's RETURNING knows no other table, hence subqueries."""
    fitting = (jobs.c.target == bindparam(f"kind_{n}") for n in range(kinds))
    mine = or_(jobs.c.target == "auto", *fitting)
    if spare_expired:
        open_ = and_(jobs.c.state == "queued", mine)
    else:
        open_ = or_(and_(or_(jobs.c.state == "queued", _expired), mine), and_(_expired, _given_up))
    oldest = (
        select(jobs.c.seq)
        # of a CASE PostgreSQL believes that it is seldom NULL, where it thinks the condition itself
        # so rare that it reads and sorts the queue; this way it walks along ix_jobs_claim
        .where(UNENDED, case((open_, 1)).is_not(None))
        .order_by(jobs.c.seq)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    if wanted:
        oldest = oldest.where(jobs.c.id == bindparam("wanted"))
    of_workload = {
        "workload_key": workloads.c.key,
        "operator": workloads.c.operator,
        "workload": workloads.c.workload,
    }
    return (
        update(jobs)
        .where(jobs.c.seq == oldest.scalar_subquery())
        .values(**_taking())
        .returning(
            jobs,
            *(
                select(column).where(workloads.c.id == jobs.c.workload_id).label(name)
                for name, column in of_workload.items()
            ),
        )
    )


def _taking() -> dict[str, Any]:
    until = now() + bindparam("for_seconds", type_=Double)
    reason = (
        literal("given up after ")
        + cast(jobs.c.attempt - jobs.c.released, Text)
        + " attempts: each time the worker stopped renewing its lease (the last was "
        + jobs.c.worker
        + "); look at its log"
    )
    ended = case((jobs.c.cancel_requested, "cancelled"), else_="failed")
    return {
        "state": case((_given_up, ended), else_="running"),
        "attempt": jobs.c.attempt + case((_given_up, 0), else_=1),
        "worker": case((_given_up, jobs.c.worker), else_=bindparam("taker", type_=Text)),
        "lease_expires_at": case((_given_up, null()), else_=until),
        "started_at": func.coalesce(jobs.c.started_at, now()),
        "finished_at": case((_given_up, now())),
        "error": case((and_(_given_up, not_(jobs.c.cancel_requested)), reason)),
        "eta_seconds": None,
    }


def heartbeat(
    engine: Engine, job_id: str, attempt: int, lease_seconds: float = LEASE_SECONDS
) -> bool:
    """Renew the lease; whether the job is to be cancelled. Raises LeaseLost."""
    return _write(engine, job_id, attempt, _renewing, {"for_seconds": lease_seconds})


def progress(
    engine: Engine,
    job_id: str,
    attempt: int,
    *,
    measured: int,
    ok: int,
    failed: int,
    best: dict[str, Any] | None,
    eta_seconds: float | None,
    device_id: int | None,
) -> None:
    """How far the job is, of all its attempts. A device_id of None keeps the one that is known.

    Raises LeaseLost."""
    given = {
        "new_measured": measured,
        "new_ok": ok,
        "new_failed": failed,
        "new_best": best,
        "new_eta_seconds": eta_seconds,
        "new_device_id": device_id,
    }
    _write(engine, job_id, attempt, _reporting, given)


def finish(
    engine: Engine,
    job_id: str,
    attempt: int,
    state: Literal["succeeded", "failed", "cancelled"],
    error: str | None = None,
) -> None:
    """End the job. Raises LeaseLost."""
    _write(engine, job_id, attempt, _finishing, {"new_state": state, "new_error": error})


def excuse(engine: Engine, job_id: str, attempt: int) -> None:
    """Uncharge an attempt that was lost because the database was silent, as :func:`release` does
    where it is held still: the job goes back to the queue. Nothing happens to a job that has
    ended."""
    try:
        release(engine, job_id, attempt)
    except LeaseLost:
        later = (jobs.c.id == job_id, jobs.c.attempt > attempt, UNENDED)
        with one_write(engine) as connection:
            connection.execute(update(jobs).where(*later).values(released=jobs.c.released + 1))


def release(engine: Engine, job_id: str, attempt: int) -> None:
    """Give the job back at once, uncharged; one that was to be cancelled is. Raises LeaseLost."""
    _write(engine, job_id, attempt, _releasing, {})


def _write(
    engine: Engine,
    job_id: str,
    attempt: int,
    statement: ReturningUpdate[tuple[bool]],
    given: dict[str, Any],
) -> bool:
    """Fence and write in one statement; whether the job is to be cancelled. Raises LeaseLost."""
    with one_write(engine) as connection:
        row = connection.execute(
            statement, {"held_id": job_id, "held_attempt": attempt, **given}
        ).first()
    if row is None:
        raise LeaseLost(job_id, attempt)
    return bool(row.cancel_requested)


def _set_held(**values: Any) -> ReturningUpdate[tuple[bool]]:
    held_now = (
        jobs.c.id == bindparam("held_id"),
        jobs.c.attempt == bindparam("held_attempt"),
        jobs.c.state == "running",
    )
    return update(jobs).where(*held_now).values(**values).returning(jobs.c.cancel_requested)


def held(connection: Connection, job_id: str, attempt: int) -> RowMapping:
    """The job's row, locked to the end of the transaction; raises LeaseLost unless this attempt
    holds it. A lease that ran out unclaimed still holds."""
    query = (
        select(jobs)
        .where(jobs.c.id == job_id, jobs.c.attempt == attempt, jobs.c.state == "running")
        .with_for_update()
    )
    row = connection.execute(query).mappings().first()
    if row is None:
        raise LeaseLost(job_id, attempt)
    return row


def set_job(connection: Connection, seq: int, **values: Any) -> None:
    connection.execute(update(jobs).where(jobs.c.seq == seq).values(**values))


def _ending(state: Any, error: Any) -> dict[str, Any]:
    return {
        "state": state,
        "error": error,
        "finished_at": now(),
        "lease_expires_at": None,
        "eta_seconds": None,
    }


def succeed(connection: Connection, seq: int, **values: Any) -> None:
    """End a held job well, within the caller's transaction."""
    set_job(connection, seq, **_ending("succeeded", None), **values)


_stop = jobs.c.cancel_requested
_renewing = _set_held(lease_expires_at=now() + bindparam("for_seconds", type_=Double))
_reporting = _set_held(
    trials_measured=bindparam("new_measured"),
    trials_ok=bindparam("new_ok"),
    trials_failed=bindparam("new_failed"),
    best=bindparam("new_best"),
    eta_seconds=bindparam("new_eta_seconds"),
    device_id=func.coalesce(bindparam("new_device_id", type_=BigId), jobs.c.device_id),
)
_finishing = _set_held(**_ending(bindparam("new_state"), bindparam("new_error")))
_releasing = _set_held(
    state=case((_stop, "cancelled"), else_="queued"),
    released=jobs.c.released + case((_stop, 0), else_=1),
    worker=case((_stop, jobs.c.worker)),
    finished_at=case((_stop, now())),
    lease_expires_at=None,
    eta_seconds=None,
)
