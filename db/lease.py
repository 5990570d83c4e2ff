"""A worker's hold on a job: every write names the attempt it belongs to, and a lost one is refused.

The fence and the write are one transaction, and the fence locks the job's row: between the two no
other worker can claim the job."""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, Engine, and_, func, or_, select, true, update
from sqlalchemy.engine import RowMapping

from db.columns import now
from db.errors import LeaseLost
from db.jobs import Job, by_seq
from db.models import UNENDED, jobs
from db.transaction import writing

LEASE_SECONDS = 30.0
MAX_ATTEMPTS = 3

_expired = and_(jobs.c.state == "running", jobs.c.lease_expires_at < now())
_exhausted = jobs.c.attempt - jobs.c.released >= MAX_ATTEMPTS


def claim(
    engine: Engine,
    worker: str,
    kinds: Sequence[str],
    lease_seconds: float = LEASE_SECONDS,
    job_id: str | None = None,
) -> Job | None:
    """The oldest job this worker's kinds of device may run, now held by it; None where none waits.
    With `job_id` only that job will do.

    Jobs whose lease ran out are claimable again; the ones among them that were to be cancelled, or
    have used up their attempts, are ended here."""
    with writing(engine) as connection:
        _end_abandoned(connection)
        oldest = (
            select(jobs.c.seq)
            .where(
                UNENDED,
                or_(
                    jobs.c.state == "queued", and_(_expired, ~_exhausted, ~jobs.c.cancel_requested)
                ),
                jobs.c.target.in_(("auto", *kinds)),
                jobs.c.id == job_id if job_id is not None else true(),
            )
            .order_by(jobs.c.seq)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        statement = (
            update(jobs)
            .where(jobs.c.seq == oldest.scalar_subquery())
            .values(
                state="running",
                attempt=jobs.c.attempt + 1,
                worker=worker,
                lease_expires_at=now() + lease_seconds,
                started_at=func.coalesce(jobs.c.started_at, now()),
                eta_seconds=None,
            )
            .returning(jobs.c.seq)
        )
        seq = connection.execute(statement).scalar()
        return None if seq is None else by_seq(connection, seq)


def _end_abandoned(connection: Connection) -> None:
    query = (
        select(jobs.c.seq, jobs.c.cancel_requested, jobs.c.worker, jobs.c.attempt, jobs.c.released)
        .where(UNENDED, _expired, or_(_exhausted, jobs.c.cancel_requested))
        .with_for_update(skip_locked=True)
    )
    for row in connection.execute(query).all():
        reason = (
            None
            if row.cancel_requested
            else f"given up after {row.attempt - row.released} attempts: each time the worker "
            f"stopped renewing its lease (the last was {row.worker}); look at its log"
        )
        connection.execute(
            update(jobs)
            .where(jobs.c.seq == row.seq)
            .values(**_ending("cancelled" if row.cancel_requested else "failed", reason))
        )


def heartbeat(
    engine: Engine, job_id: str, attempt: int, lease_seconds: float = LEASE_SECONDS
) -> bool:
    """Renew the lease; whether the job is to be cancelled. Raises LeaseLost."""
    with writing(engine) as connection:
        row = held(connection, job_id, attempt)
        set_job(connection, row["seq"], lease_expires_at=now() + lease_seconds)
        return bool(row["cancel_requested"])


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
    with writing(engine) as connection:
        row = held(connection, job_id, attempt)
        set_job(
            connection,
            row["seq"],
            trials_measured=measured,
            trials_ok=ok,
            trials_failed=failed,
            best=best,
            eta_seconds=eta_seconds,
            device_id=row["device_id"] if device_id is None else device_id,
        )


def finish(
    engine: Engine,
    job_id: str,
    attempt: int,
    state: Literal["succeeded", "failed", "cancelled"],
    error: str | None = None,
) -> None:
    """End the job. Raises LeaseLost."""
    with writing(engine) as connection:
        set_job(connection, held(connection, job_id, attempt)["seq"], **_ending(state, error))


def release(engine: Engine, job_id: str, attempt: int) -> None:
    """Give the job back at once, uncharged; one that was to be cancelled is. Raises LeaseLost."""
    with writing(engine) as connection:
        row = held(connection, job_id, attempt)
        if row["cancel_requested"]:
            set_job(connection, row["seq"], **_ending("cancelled", None))
        else:
            set_job(
                connection,
                row["seq"],
                state="queued",
                released=jobs.c.released + 1,
                worker=None,
                lease_expires_at=None,
                eta_seconds=None,
            )


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


def _ending(state: str, error: str | None) -> dict[str, Any]:
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
