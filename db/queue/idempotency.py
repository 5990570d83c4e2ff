"""Keys that customers put on their orders, so that one which is sent twice is taken once: it made
a job, or a model.

A key is its orderer's own: another's is another key. It is kept for a day."""

from typing import Literal

from sqlalchemy import Connection, delete, func, insert, select

from db.access.quota import orderer_of
from db.sql.columns import now
from db.sql.errors import IdempotencyConflict, TooManyKeys
from db.sql.models import idempotency_keys

KEPT_SECONDS = 86400.0
MOST_KEYS = 10_000
"""Of one orderer in that time."""


Made = Literal["job_seq", "model_seq"]
"""What an order got, by the column that has its number."""


def seen(connection: Connection, key: str, order_key: str, made: Made = "job_seq") -> int | None:
    """The number of what an order with this key got. Raises IdempotencyConflict."""
    old = idempotency_keys.c.created_at < now() - KEPT_SECONDS
    connection.execute(delete(idempotency_keys).where(old))
    query = select(idempotency_keys).where(
        idempotency_keys.c.ordered_by == _owner(connection), idempotency_keys.c.key == key
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.order_key != order_key:
        raise IdempotencyConflict(
            f"Idempotency-Key {key[:80]!r} was used for another order; send a new key"
        )
    return int(row._mapping[made])


def remember(
    connection: Connection, key: str, order_key: str, seq: int, made: Made = "job_seq"
) -> None:
    """Raises TooManyKeys."""
    owner = _owner(connection)
    there = select(func.count()).where(idempotency_keys.c.ordered_by == owner)
    if connection.execute(there).scalar_one() >= MOST_KEYS:
        raise TooManyKeys(MOST_KEYS)
    connection.execute(
        insert(idempotency_keys).values(
            ordered_by=owner, key=key, order_key=order_key, created_at=now(), **{made: seq}
        )
    )


def _owner(connection: Connection) -> str:
    """Empty where the engine is nobody's."""
    orderer = orderer_of(connection)
    return "" if orderer is None else orderer.name
