"""A user's wish to stop a model."""

from sqlalchemy import Connection, Engine, exists, or_, select, update

from db.models.read import by_id, by_seq
from db.models.standing import Model
from db.queue.cancel import stop
from db.sql.columns import now
from db.sql.errors import ModelEnded
from db.sql.models import jobs, model_layers, models
from db.sql.transaction import writing


def cancel(engine: Engine, model_id: str) -> Model:
    """Cancel the model, and those of its jobs that are there for it alone. A job that was ordered
    by itself too, or that another model refers to which is not cancelled, goes on.

    Raises NotFound, ModelEnded."""
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
    """The numbers of its jobs that have not ended and nobody else wants. A statement after the one
    that locked them: it sees who has joined one meanwhile."""
    unended = [part.seq for part in model.parts if not part.ended]
    another = exists().where(
        model_layers.c.job_seq == jobs.c.seq,
        models.c.seq == model_layers.c.model_seq,
        models.c.seq != model.seq,
        models.c.cancelled_at.is_(None),
    )
    wanted = select(jobs.c.seq).where(jobs.c.seq.in_(unended), or_(jobs.c.own_order, another))
    others = set(connection.execute(wanted).scalars())
    return [seq for seq in unended if seq not in others]
