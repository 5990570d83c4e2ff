"""Short reads run on the event loop, and in a thread if a lock or PostgreSQL may delay them."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine, create_engine

from api.route_helpers.nonblocking import open_nonblocking_engine, read_nonblocking
from db.fleet.devices import list_devices
from db.sql.columns import now
from db.sql.engine import migrate, open_engine
from db.sql.errors import DatabaseUnavailable
from db.sql.transaction import reading


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    app = FastAPI()
    app.state.engine = open_engine(f"sqlite:///{tmp_path}/quick.db")
    migrate(app.state.engine)
    app.state.nonblocking_engine = open_nonblocking_engine(app.state.engine)
    yield app
    app.state.nonblocking_engine.dispose()
    app.state.engine.dispose()


def where(engine: Engine) -> tuple[Engine, threading.Thread]:
    """Read the database; return the engine and the thread in which that happened."""
    with reading(engine) as connection:
        assert connection.execute(now().select()).scalar_one() > 0
    return engine, threading.current_thread()


def test_sqlite_is_read_on_the_event_loop(app: FastAPI) -> None:
    async def asked() -> None:
        assert await read_nonblocking(app, where) == (
            app.state.nonblocking_engine,
            threading.current_thread(),
        )

    asyncio.run(asked())


def test_locked_sqlite_file_is_waited_for_in_a_thread(app: FastAPI, tmp_path: Path) -> None:
    app.state.nonblocking_engine.dispose()
    app.state.engine.dispose()  # only the last connection can leave WAL
    holder = sqlite3.connect(tmp_path / "quick.db", isolation_level=None)
    holder.execute("PRAGMA journal_mode = DELETE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseUnavailable, match="locked"):
        list_devices(app.state.nonblocking_engine)

    async def asked() -> None:
        waiting = asyncio.ensure_future(read_nonblocking(app, list_devices))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        holder.execute("COMMIT")
        assert await waiting == []

    asyncio.run(asked())
    holder.close()


def test_postgresql_has_no_nonblocking_engine() -> None:
    engine = create_engine("postgresql+psycopg://nobody@localhost/nothing")
    assert open_nonblocking_engine(engine) is None
