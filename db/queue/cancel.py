"""Cancelling jobs."""

from collections.abc import Collection

from sqlalchemy import Connection, Engine, case, null, or_, select, update

from db.contract.job import Job
from db.queue.jobs import by_seq, require_job_id
from db.queue.lease import expired
from db.sql.columns import now
from db.sql.errors import JobEnded, NotFound
from db.sql.tables import UNENDED, jobs
from db.sql.transaction import writing


def cancel(engine: Engine, job_id: str) -> Job:
    """Cancel a job and return it. A queued job is cancelled at once, and so is a running one whose
    lease ran out; the worker of any other running job learns of it from its next heartbeat.

    Raises NotFound, and JobEnded if the job has ended."""
    with writing(engine) as connection:
        query = select(jobs.c.seq, jobs.c.state).where(jobs.c.id == require_job_id(job_id))
        row = connection.execute(query.with_for_update()).first()
        if row is None:
            raise NotFound("job", job_id)
        if row.state not in ("queued", "running"):
            raise JobEnded(job_id, row.state)
        stop(connection, [row.seq])
        return by_seq(connection, row.seq)


def stop(connection: Connection, seqs: Collection[int]) -> None:
    """Cancel those of these jobs that have not ended, as :func:`cancel` does. The caller's
    transaction must have locked the rows of all of them."""
    unheld = or_(jobs.c.state == "queued", expired)
    connection.execute(
        update(jobs)
        .where(jobs.c.seq.in_(list(seqs)), UNENDED)
        .values(
            cancel_requested=True,
            state=case((unheld, "cancelled"), else_=jobs.c.state),
            finished_at=case((unheld, now()), else_=jobs.c.finished_at),
            lease_expires_at=case((unheld, null()), else_=jobs.c.lease_expires_at),
            eta_seconds=case((unheld, null()), else_=jobs.c.eta_seconds),
        )
    )
