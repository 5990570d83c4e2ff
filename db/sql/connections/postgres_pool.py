"""Replacing pooled connections to PostgreSQL that no longer reach their server.

SQLAlchemy's pre-ping asks the server each time, which takes a third of the time of a claim. But a
server that ends a connection says so, and its message waits in the socket. So a connection that was
in use a moment ago and has nothing to read is alive. Only connections that were idle for longer are
pinged, because a network can drop an idle connection silently."""

import select
import time
from typing import Any

from psycopg import Connection, Error
from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

QUIET_SECONDS = 5.0
"""A connection that was idle for longer is pinged."""


def replace_dead_connections(engine: Engine) -> None:
    """Check each connection when it is taken from the pool. If it is dead, it and all connections
    that are older are opened anew."""

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
    """Return whether the connection is open and its socket has nothing to read."""
    if connection.closed:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return not waiting.poll(0)
