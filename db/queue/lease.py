"""Leases: a worker claims a job, renews its lease, reports, and ends the job or gives it back.

Every write of a worker names its attempt, and is refused with LeaseLost if the attempt no longer
holds the job. This check and the write are one statement, or one transaction in which the check
locks the job's row, so that no other worker can claim the job between the two."""

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
from db.sql.tables import UNENDED, jobs, workloads
from db.sql.transaction import one_write

LEASE_SECONDS = 30.0
MOST_LEASE_SECONDS = 2 * LEASE_SECONDS
"""A lease that ends more than so many seconds from now is from before the clock was set back."""
MAX_ATTEMPTS = 3
SILENT_SECONDS = 5.0
"""If a call waited this long for the database, holders of leases could not renew them either."""

expired = and_(
    jobs.c.state == "running",
    not_(jobs.c.lease_expires_at.between(now(), now() + MOST_LEASE_SECONDS)),
)
"""Whether a job's lease ran out: its worker died, hangs, or does not reach the database."""
_exhausted = jobs.c.attempt - jobs.c.released >= MAX_ATTEMPTS
_given_up = and_(jobs.c.state == "running", or_(_exhausted, jobs.c.cancel_requested))
"""Whether a job whose lease ran out must be ended, because it has used up its attempts or was to be
cancelled."""


def claim(
    engine: Engine,
    worker: str,
    kinds: Sequence[str],
    lease_seconds: float = LEASE_SECONDS,
    job_id: str | None = None,
    spare_expired: bool = False,
    device: str | None = None,
) -> Job | None:
    """Claim the oldest job that devices of these kinds may run, and return it with its new attempt.
    Return None if there is none. `job_id` restricts the claim to that job. A job that was ordered
    for one device is claimed only if `device` is that device's name.

    A job whose lease ran out can be claimed again. If it was to be cancelled, or has used up its
    MAX_ATTEMPTS, this call ends it instead, whatever its kind, unless it is younger than the job
    that is claimed.

    Jobs whose lease ran out are left alone with `spare_expired`, and if the database kept this call
    waiting for more than SILENT_SECONDS. Their holders could not renew the leases meanwhile, and
    may be about to."""
    given = {"taker": worker, "for_seconds": lease_seconds, "wanted": job_id, "own": device}
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
    """Return the statement of `claim` for this number of kinds.

    It is a single statement to save round trips to PostgreSQL, and is cached because SQLAlchemy
    takes longer to build it than the database to run it. The workload's columns are subqueries
    because SQLite's RETURNING can't refer to another table."""
    fitting = (jobs.c.target == bindparam(f"kind_{n}") for n in range(kinds))
    mine = and_(
        or_(jobs.c.target == "auto", *fitting),
        or_(jobs.c.for_device.is_(None), jobs.c.for_device == bindparam("own", type_=Text)),
    )
    if spare_expired:
        open_ = and_(jobs.c.state == "queued", mine)
    else:
        open_ = or_(and_(or_(jobs.c.state == "queued", expired), mine), and_(expired, _given_up))
    oldest = (
        select(jobs.c.seq)
        # PostgreSQL estimates that the plain condition is rarely true, and would read and sort the
        # whole queue. It estimates that a CASE is seldom NULL, and so walks along ix_jobs_claim.
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
    """Return the new values of the job's columns: a claim, or the end of a job that is given up."""
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
    """Renew the lease, and return whether the job is to be cancelled. Raises LeaseLost."""
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
    """Store how far the job is. `measured`, `ok` and `failed` count the trials of all its attempts.
    A `device_id` of None keeps the stored one; None clears `best` and `eta_seconds`.

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
    """End the job in this state. `error` says why, if it failed. Raises LeaseLost."""
    _write(engine, job_id, attempt, _finishing, {"new_state": state, "new_error": error})


def excuse(engine: Engine, job_id: str, attempt: int) -> None:
    """Give back, uncharged, an attempt that failed because the database did not answer.

    If the attempt still holds the job, this is :func:`release`. If a later attempt holds it, or it
    is queued again, only the count of charged attempts is lowered. A job that has ended stays as it
    is."""
    try:
        release(engine, job_id, attempt)
    except LeaseLost:
        later = (jobs.c.id == job_id, jobs.c.attempt > attempt, UNENDED)
        with one_write(engine) as connection:
            connection.execute(update(jobs).where(*later).values(released=jobs.c.released + 1))


def release(engine: Engine, job_id: str, attempt: int) -> None:
    """Put the job back into the queue at once, without charging it the attempt. If the job was to
    be cancelled, cancel it instead. Raises LeaseLost."""
    _write(engine, job_id, attempt, _releasing, {})


def _write(
    engine: Engine,
    job_id: str,
    attempt: int,
    statement: ReturningUpdate[tuple[bool]],
    given: dict[str, Any],
) -> bool:
    """Run a statement made by `_set_held`, with ``given`` as its further parameters. Return whether
    the job is to be cancelled. Raises LeaseLost."""
    with one_write(engine) as connection:
        row = connection.execute(
            statement, {"held_id": job_id, "held_attempt": attempt, **given}
        ).first()
    if row is None:
        raise LeaseLost(job_id, attempt)
    return bool(row.cancel_requested)


def _set_held(**values: Any) -> ReturningUpdate[tuple[bool]]:
    """Return an UPDATE that changes a job only if the given attempt holds it."""
    held_now = (
        jobs.c.id == bindparam("held_id"),
        jobs.c.attempt == bindparam("held_attempt"),
        jobs.c.state == "running",
    )
    return update(jobs).where(*held_now).values(**values).returning(jobs.c.cancel_requested)


def lock_leased_job(connection: Connection, job_id: str, attempt: int) -> RowMapping:
    """Return the job's row, and lock it to the end of the transaction.

    Raises LeaseLost unless this attempt holds the job. A lease that ran out is still held until
    another worker claims the job."""
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
    """Set columns of a job, within the caller's transaction, which has locked its row by
    `lock_leased_job`."""
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
    """End a job as succeeded, within the caller's transaction, which has checked by
    `lock_leased_job` that the attempt holds it. ``values`` are further columns to set."""
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
