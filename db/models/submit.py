"""Taking orders of models: each order gets a model, and a new job for each layer without one."""

from uuid import uuid4

from sqlalchemy import Connection, Engine, insert

from db.contract.model import ModelOrder
from db.contract.order import terms_of
from db.models.read import by_seq
from db.models.state import Model
from db.queue import idempotency
from db.queue.submit import find_or_create_jobs, hash_fields, retry_on_conflict
from db.sql.columns import now
from db.sql.tables import model_layers, models


def submit(
    engine: Engine,
    order: ModelOrder,
    idempotency_key: str | None = None,
    reused_on: str | None = None,
) -> tuple[Model, bool]:
    """Return the model for an order, and whether this call created it. If the Idempotency-Key was
    sent with this order before, the model of that call is returned.

    Each layer gets the job, existing or new, that `db.queue.submit` would return for it with the
    same `reused_on`. All of this is one transaction. Raises IdempotencyConflict, TooManyKeys, and
    QuotaExceeded if orders through `engine` are charged to somebody."""
    return retry_on_conflict(
        engine, lambda connection: _submit(connection, order, idempotency_key, reused_on)
    )


def _submit(
    connection: Connection, order: ModelOrder, key: str | None, reused_on: str | None
) -> tuple[Model, bool]:
    orders = [layer.order for layer in order.layers]
    order_key = hash_fields(
        {
            "model": order.name,
            "layers": [[layer.order.compared_fields(), layer.calls] for layer in order.layers],
        }
    )
    seen = idempotency.seen(connection, key, order_key, "model_seq") if key is not None else None
    if seen is not None:
        return by_seq(connection, seen), False
    found = find_or_create_jobs(connection, orders, own=False, reused_on=reused_on)
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
