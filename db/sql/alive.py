"""Whether a pooled connection to PostgreSQL still leads to its server.

Asking the server each time, as SQLAlchemy's pre-ping does, costs a claim a third of its time. A
server that ends a connection says so, and what it said waits in the socket: one that was in use a
moment ago and has nothing to say is alive. One that was idle for longer is asked, as a network can
forget it without a word."""

import select
import time
from typing import Any

from psycopg import Connection, Error
from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

QUIET_SECONDS = 5.0


def replace_dead_connections(engine: Engine) -> None:
    """Have each connection looked at when it is taken from the pool; where one is dead, it and all
    older ones are opened anew."""

    @event.listens_for(engine, "checkin")
    def note(_: Any, entry: ConnectionPoolEntry) -> None:
        entry.info["returned"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def look(connection: Connection[Any], entry: ConnectionPoolEntry, _: Any) -> None:
        returned = entry.info.get("returned")
        if returned is None or (time.monotonic() - returned < QUIET_SECONDS and _quiet(connection)):
            return
        try:
            engine.dialect.do_ping(connection)  # type: ignore[arg-type]
        except Error as error:
            raise InvalidatePoolError from error


def _quiet(connection: Connection[Any]) -> bool:
    if connection.closed:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)
