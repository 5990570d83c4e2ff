"""Reading models: one by its id or number, and lists."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Row, select

from db.models.state import SUMMARY_COLUMNS, JobSummary, Model
from db.sql import ids
from db.sql.columns import now
from db.sql.errors import NotFound
from db.sql.pages import Page, page, read_cursor
from db.sql.tables import jobs, model_layers, models
from db.sql.transaction import reading


def get(engine: Engine, model_id: str) -> Model:
    """Return a model by its id. Raises NotFound."""
    with reading(engine) as connection:
        return by_id(connection, model_id)


def resolve_id(engine: Engine, prefix: str) -> str:
    """Return the id of the only model whose id begins with ``prefix``.

    Raises NotFound, and AmbiguousId if there are several."""
    return ids.find_by_prefix(engine, models, "model", prefix)


def list_models(engine: Engine, limit: int = 50, cursor: str | None = None) -> Page[Model]:
    """Return a page of at most ``limit`` models, newest first. ``cursor`` is the ``next_cursor`` of
    the page before. Raises BadCursor."""
    query = select(models, now().label("seen_at")).order_by(models.c.seq.desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(models.c.seq < read_cursor("models", cursor))
    with reading(engine) as connection:
        found = _with_jobs(connection, connection.execute(query).all())
    return page("models", limit, found, [model.seq for model in found])


def by_id(connection: Connection, model_id: str, *, locked: bool = False) -> Model:
    """Return a model by its id. With `locked`, no other transaction can cancel the model or change
    the states of its jobs before this transaction ends. Raises NotFound."""
    query = select(models, now().label("seen_at"))
    query = query.where(models.c.id == ids.require_id_format("model", model_id))
    row = connection.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound("model", model_id)
    return _with_jobs(connection, [row], locked=locked)[0]


def by_seq(connection: Connection, seq: int) -> Model:
    """Return the model with this number, which must exist."""
    query = select(models, now().label("seen_at")).where(models.c.seq == seq)
    return _with_jobs(connection, [connection.execute(query).one()])[0]


def _with_jobs(
    connection: Connection, rows: Sequence[Row[Any]], *, locked: bool = False
) -> list[Model]:
    """Return the models of these rows, with their jobs.

    With `locked`, lock the jobs in the order of their numbers. `db/queue/submit.py` locks the jobs
    that an order joins in the same order, so that the two can't deadlock."""
    query = (
        select(model_layers.c.model_seq, model_layers.c.place, *SUMMARY_COLUMNS)
        .join(jobs, jobs.c.seq == model_layers.c.job_seq)
        .where(model_layers.c.model_seq.in_([row.seq for row in rows]))
        .order_by(jobs.c.seq)
    )
    if locked:
        query = query.with_for_update(key_share=True, of=jobs)
    places: dict[int, dict[int, JobSummary]] = {}
    for model_seq, place, *columns in connection.execute(query):
        places.setdefault(model_seq, {})[place] = JobSummary(*columns)
    return [
        Model(
            seq=row.seq,
            id=row.id,
            name=row.name,
            terms=row.terms,
            created=row.created_at,
            cancelled=row.cancelled_at,
            seen_at=row.seen_at,
            jobs=[job for _, job in sorted(places[row.seq].items())],
        )
        for row in rows
    ]
