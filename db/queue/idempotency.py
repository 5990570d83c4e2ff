"""Idempotency-Keys: an order that is sent twice with the same key makes one job or one model.

A key belongs to its orderer: two orderers can use the same text for different orders. It is kept
for a day."""

from typing import Literal

from sqlalchemy import Connection, delete, func, insert, select

from db.access.quota import orderer_of
from db.sql.columns import now
from db.sql.errors import IdempotencyConflict, TooManyKeys
from db.sql.tables import idempotency_keys

KEPT_SECONDS = 86400.0
MOST_KEYS = 10_000
"""The most keys that one orderer can have stored at once."""


Made = Literal["job_seq", "model_seq"]
"""The column with the number of the job or model that an order got."""


def seen(connection: Connection, key: str, order_key: str, made: Made = "job_seq") -> int | None:
    """Return the number of the job or model that an order with this key got; None for a new key.

    First, the keys of all orderers that are older than a day are deleted. Raises
    IdempotencyConflict if the key was used for an order with another ``order_key``."""
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
    """Store that an order with this key got the job or model number ``seq``.

    Raises TooManyKeys if the orderer has MOST_KEYS keys already."""
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
    """Return the name of the connection's orderer; empty if it has none."""
    orderer = orderer_of(connection)
    return "" if orderer is None else orderer.name
