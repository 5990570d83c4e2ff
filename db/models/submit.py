"""Taking an order of many workloads: a model, and the jobs that it lacks."""

from uuid import uuid4

from sqlalchemy import Connection, Engine, insert

from db.contract.model import ModelOrder
from db.contract.order import terms_of
from db.models.read import by_seq
from db.models.standing import Model
from db.queue import idempotency
from db.queue.submit import in_turn, key_of, taken
from db.sql.columns import now
from db.sql.models import model_layers, models


def submit(
    engine: Engine, order: ModelOrder, idempotency_key: str | None = None
) -> tuple[Model, bool]:
    """The model for an order, and whether it was created by this call: it was not if the
    Idempotency-Key was seen with this order.

    Each layer gets the job that `queue.submit` would give it: one that is there, or a new one. All
    or nothing, in one transaction. Raises IdempotencyConflict, TooManyKeys, and QuotaExceeded if
    `engine` is somebody's."""
    return in_turn(engine, lambda connection: _submit(connection, order, idempotency_key))


def _submit(connection: Connection, order: ModelOrder, key: str | None) -> tuple[Model, bool]:
    orders = [layer.order for layer in order.layers]
    order_key = key_of(
        {
            "model": order.name,
            "layers": [[layer.order.compared(), layer.calls] for layer in order.layers],
        }
    )
    seen = idempotency.seen(connection, key, order_key, "model_seq") if key is not None else None
    if seen is not None:
        return by_seq(connection, seen), False
    found = taken(connection, orders, own=False)
    made = insert(models).values(
        id=uuid4().hex, name=order.name, terms=terms_of(orders[0]), created_at=now()
    )
    seq = connection.execute(made.returning(models.c.seq)).scalar_one()
    rows = [
        {"model_seq": seq, "place": place, "job_seq": job, "calls": layer.calls}
        for place, (layer, (job, _)) in enumerate(zip(order.layers, found, strict=True))
    ]
    connection.execute(insert(model_layers), rows)
    if key is not None:
        idempotency.remember(connection, key, order_key, seq, "model_seq")
    return by_seq(connection, seq), True
