"""Cancelling models."""

from sqlalchemy import Connection, Engine, exists, or_, select, update

from db.models.read import by_id, by_seq
from db.models.state import Model
from db.queue.cancel import stop
from db.sql.columns import now
from db.sql.errors import ModelEnded
from db.sql.tables import jobs, model_layers, models
from db.sql.transaction import writing


def cancel(engine: Engine, model_id: str) -> Model:
    """Cancel a model and the jobs ordered for it alone, and return the model. A job goes on if it
    was also ordered by itself, or if another model that is not cancelled refers to it. Cancelling a
    model again while its jobs stop changes nothing.

    Raises NotFound, and ModelEnded if the model has ended."""
    with writing(engine) as connection:
        model = by_id(connection, model_id, locked=True)
        if model.ended:
            raise ModelEnded(model.id, model.state)
        if model.cancelled is None:
            stop(connection, _its_own(connection, model))
            cancelled = update(models).where(models.c.seq == model.seq)
            connection.execute(cancelled.values(cancelled_at=now()))
        return by_seq(connection, model.seq)


def _its_own(connection: Connection, model: Model) -> list[int]:
    """Return the numbers of the unended jobs that were ordered for this model alone.

    This statement runs after the one that locked the jobs, so that it sees orders that joined a job
    before the lock."""
    unended = [job.seq for job in model.jobs if not job.ended]
    another = exists().where(
        model_layers.c.job_seq == jobs.c.seq,
        models.c.seq == model_layers.c.model_seq,
        models.c.seq != model.seq,
        models.c.cancelled_at.is_(None),
    )
    wanted = select(jobs.c.seq).where(jobs.c.seq.in_(unended), or_(jobs.c.own_order, another))
    others = set(connection.execute(wanted).scalars())
    return [seq for seq in unended if seq not in others]
