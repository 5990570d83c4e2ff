"""A user's wish to stop a job."""

from collections.abc import Collection

from sqlalchemy import Connection, Engine, case, select, update

from db.contract.job import Job
from db.queue.jobs import by_seq, known_id
from db.sql.columns import now
from db.sql.errors import JobEnded, NotFound
from db.sql.models import UNENDED, jobs
from db.sql.transaction import writing


def cancel(engine: Engine, job_id: str) -> Job:
    """A queued job is cancelled at once; a running one is told to stop by its next heartbeat.

    Raises NotFound, JobEnded."""
    with writing(engine) as connection:
        query = select(jobs.c.seq, jobs.c.state).where(jobs.c.id == known_id(job_id))
        row = connection.execute(query.with_for_update()).first()
        if row is None:
            raise NotFound("job", job_id)
        if row.state not in ("queued", "running"):
            raise JobEnded(job_id, row.state)
        stop(connection, [row.seq])
        return by_seq(connection, row.seq)


def stop(connection: Connection, seqs: Collection[int]) -> None:
    """The same for those of several that have not ended; the transaction has locked their rows."""
    queued = jobs.c.state == "queued"
    connection.execute(
        update(jobs)
        .where(jobs.c.seq.in_(list(seqs)), UNENDED)
        .values(
            cancel_requested=True,
            state=case((queued, "cancelled"), else_=jobs.c.state),
            finished_at=case((queued, now()), else_=jobs.c.finished_at),
        )
    )
