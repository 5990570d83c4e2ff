"""Short reads of the database on the event loop, without a thread.

SQLite answers a look-up by an index in a fifth of a millisecond; handing it to a thread and back
takes longer. So it runs on the event loop, on a connection that waits for no lock. If there is a
lock, and always on PostgreSQL, which may take long to answer, it runs in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fastapi import FastAPI
from sqlalchemy import Engine
from starlette.concurrency import run_in_threadpool

from db.sql.engine import open_engine
from db.sql.errors import DatabaseUnavailable

T = TypeVar("T")


def open_nonblocking_engine(engine: Engine) -> Engine | None:
    """Return a second engine on the same SQLite file, which never waits. None on PostgreSQL."""
    if engine.dialect.name != "sqlite":
        return None
    return open_engine(engine.url.render_as_string(hide_password=False), busy_seconds=0)


async def read_nonblocking(app: FastAPI, read: Callable[[Engine], T]) -> T:
    """Return what ``read`` returns. As a rule it must take less than a millisecond."""
    if app.state.nonblocking_engine is not None:
        try:
            return read(app.state.nonblocking_engine)
        except DatabaseUnavailable:
            pass
    return await run_in_threadpool(read, app.state.engine)
