"""A user's wish to stop a job."""

from sqlalchemy import Engine, select, update

from db.contract.job import Job
from db.queue.jobs import by_seq, known_id
from db.sql.columns import now
from db.sql.errors import JobEnded, NotFound
from db.sql.models import jobs
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
        ending = {"state": "cancelled", "finished_at": now()} if row.state == "queued" else {}
        connection.execute(
            update(jobs).where(jobs.c.seq == row.seq).values(cancel_requested=True, **ending)
        )
        return by_seq(connection, row.seq)
