"""Short reads of the database on the event loop, without a thread.

SQLite answers a look-up by an index in a fifth of a millisecond; handing it to a thread and back
takes longer. So a short read runs on the event loop, on a connection that never waits for a lock.
It runs in a thread if the file is locked, and always on PostgreSQL, which may take long to answer.
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
    """Return a second engine on the same SQLite file that waits for no lock; None on PostgreSQL."""
    if engine.dialect.name != "sqlite":
        return None
    return open_engine(engine.url.render_as_string(hide_password=False), busy_seconds=0)


async def read_nonblocking(app: FastAPI, read: Callable[[Engine], T]) -> T:
    """Return the result of ``read``, which as a rule must take less than a millisecond."""
    if app.state.nonblocking_engine is not None:
        try:
            return read(app.state.nonblocking_engine)
        except DatabaseUnavailable:
            pass
    return await run_in_threadpool(read, app.state.engine)
