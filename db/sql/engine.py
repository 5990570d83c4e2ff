"""Opening the database, and everything else that is done to it as a whole."""

import shutil
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from db.sql.columns import to_json
from db.sql.errors import DatabaseDamaged, DatabaseUnavailable
from db.sql.same_file import follow
from db.sql.schema import check_schema, migrate
from db.sql.transaction import reading, writing

__all__ = ["check_schema", "migrate", "open_engine", "reading", "writing"]

BUSY_SECONDS = 30
CACHE_KIB = 512
"""Of SQLite, for each connection of a pool. Its own 2 MiB fill over hours, and what another process
writes empties them; the pages are in the system's cache all the same."""

ROOM = 64 << 10
"""Bytes on the disk without which SQLite can't open a database: it makes files beside it."""

PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}
"""With PostgreSQL, in libpq's names: a network that swallows everything is noticed after 20 s, and
not after a quarter of an hour or two. The last is in milliseconds."""


def open_engine(url: str | URL, busy_seconds: float = BUSY_SECONDS) -> Engine:
    """`sqlite:///file` or `postgresql+psycopg://user:password@host/name`, connected to once.
    `busy_seconds` is how long SQLite waits for a lock.

    Raises DatabaseUnavailable, which names the URL without its password, and the way out."""
    found = parsed(url)
    shown = found.render_as_string(hide_password=True)
    dialect = found.get_backend_name()
    if dialect == "sqlite":
        return _connected(_sqlite(found, shown, busy_seconds), shown)
    if dialect in ("postgresql", "postgres"):
        return _connected(_postgresql(found, shown), shown)
    raise DatabaseUnavailable(
        shown, f"{dialect} is not supported; use sqlite:///file.db or postgresql+psycopg://…"
    )


def parsed(url: str | URL) -> URL:
    """Raises DatabaseUnavailable."""
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUnavailable(
            "of TUNER_DATABASE_URL",  # not echoed: what can't be parsed may hold a password
            "it is no URL; write sqlite:///file.db or postgresql+psycopg://user@host/name",
        ) from None


def _connected(engine: Engine, shown: str) -> Engine:
    try:
        with engine.connect():
            return engine
    except SQLAlchemyError as error:
        engine.dispose()
        cause = str(getattr(error, "orig", None) or error).strip()
        if "malformed" in cause:  # SQLite's own word
            raise DatabaseDamaged(shown, cause) from error
        hint = (
            why_not_opened(Path(engine.url.database or "").absolute().parent)
            if engine.dialect.name == "sqlite"
            else "is the server running, and are host, name, user and password right?"
        )
        raise DatabaseUnavailable(shown, f"{cause}; {hint}") from error


def why_not_opened(folder: Path) -> str:
    """What to look for if SQLite can't open a database in that folder."""
    with suppress(OSError):
        if shutil.disk_usage(folder).free < ROOM:
            return f"the disk of {folder} is full, make room"
    return "is the file a database of convtune, and may this user write it and its folder?"


def _postgresql(url: URL, shown: str) -> Engine:
    url = url.set(drivername="postgresql+psycopg")
    try:
        engine = create_engine(
            url,
            json_serializer=to_json,
            json_deserializer=from_json,
            max_overflow=35,  # a web server's forty threads
            connect_args={name: value for name, value in PATIENCE.items() if name not in url.query},
        )
    except ModuleNotFoundError as error:
        raise DatabaseUnavailable(
            shown, "its driver is missing; pip install 'convtune[postgres]'"
        ) from error
    from db.sql.alive import replace_dead_connections  # noqa: PLC0415  # it needs the driver

    replace_dead_connections(engine)
    return engine


def _sqlite(url: URL, shown: str, busy_seconds: float) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise DatabaseUnavailable(shown, "name a file: processes can't share one in memory")
    folder = Path(url.database).absolute().parent
    if not folder.is_dir():
        raise DatabaseUnavailable(shown, f"there is no folder {folder}; create it first")
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        json_serializer=to_json,
        json_deserializer=from_json,
        max_overflow=35,
        pool_use_lifo=True,  # each connection that is used keeps statements of its own
        connect_args={"timeout": busy_seconds},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # BEGIN is ours, in db.sql.transaction
        connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        _use_wal(connection, busy_seconds)

    follow(engine, Path(url.database))
    return engine


def _use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    # changing to WAL does not wait for the busy timeout, and a starting neighbour may be at it
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
