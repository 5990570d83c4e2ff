"""Opening a database, with the settings that SQLite and PostgreSQL need here.

`migrate`, `check_schema`, `reading` and `writing` can be imported from here too."""

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
from db.sql.connections.forks import let_fork
from db.sql.connections.sqlite_pool import replace_stale_connections
from db.sql.connections.sqlite_read_only import connect_read_only
from db.sql.errors import DatabaseDamaged, DatabaseUnavailable
from db.sql.schema import check_schema, migrate, refuse_foreign
from db.sql.transaction import reading, writing
from db.sql.url import without_passwords

__all__ = ["check_schema", "migrate", "open_engine", "reading", "writing"]

BUSY_SECONDS = 30
CACHE_KIB = 512
"""The size of SQLite's page cache, for each connection of a pool. SQLite's default is 2 MiB, which
fills up over hours, and is emptied whenever another process writes. A small cache costs little,
because the operating system caches the file too."""

ROOM = 64 << 10
"""The free bytes on the disk that SQLite needs to open a database, because it makes side files."""

CONNECTION_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}
"""Timeouts of connections to PostgreSQL, in libpq's names. With them, a network that drops all
packets is noticed after 20 s instead of a quarter of an hour or two. All are in seconds, except
tcp_user_timeout (milliseconds) and keepalives_count (packets)."""


def open_engine(
    url: str | URL, busy_seconds: float = BUSY_SECONDS, *, read_only: bool = False
) -> Engine:
    """Return an engine for `sqlite:///file` or `postgresql+psycopg://user:password@host/name`, and
    connect once to see whether it works. `busy_seconds` is how long SQLite waits for a lock. With
    `read_only` no byte of a SQLite file is changed.

    Raises DatabaseUnavailable, which names the URL without its password and says what to do, and
    SchemaMismatch if a SQLite file has the tables of another program."""
    found = parsed(url)
    dialect = found.get_backend_name()
    if dialect == "sqlite":
        return _connected(_sqlite(found, busy_seconds, read_only=read_only), found)
    if dialect in ("postgresql", "postgres"):
        return _connected(_postgresql(found), found)
    raise DatabaseUnavailable(
        without_passwords(found),
        f"{dialect} is not supported; use sqlite:///file.db or postgresql+psycopg://…",
    )


def parsed(url: str | URL) -> URL:
    """Return a database's URL as SQLAlchemy's object. Raises DatabaseUnavailable if the text is no
    URL, or if a URL of SQLite names no file."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        raise DatabaseUnavailable(
            "of TUNER_DATABASE_URL",  # not echoed: an unparsable text may hold a password
            "it is no URL; write sqlite:///file.db or postgresql+psycopg://user@host/name",
        ) from None
    if found.get_backend_name() == "sqlite":
        why = _why_no_file(found, str(url))
        if why is not None:
            raise DatabaseUnavailable(without_passwords(found), why)
    return found


def _why_no_file(url: URL, given: str) -> str | None:
    """Return why a URL of SQLite does not name a file; None if it does. ``given`` is the URL before
    it was parsed."""
    if url.host or url.port or url.username or url.password:
        return (
            "SQLite's file has no host, port or user; write TUNER_DATABASE_URL with three slashes "
            "for a relative path (sqlite:///file.db), with four for an absolute one"
        )
    if url.database in (None, "", ":memory:"):
        return "name a file: processes can't share one in memory"
    if url.query:
        return f"SQLite's file takes no options; leave out ?{'&'.join(url.query)}"
    if "?" in given:  # SQLAlchemy drops options without a value, and would open another file
        return "SQLite's file takes no options, and no ? in its name; leave out the ?"
    return None


def _connected(engine: Engine, given: URL) -> Engine:
    """Connect once, and return the engine. If that fails, raise DatabaseUnavailable with a hint."""
    let_fork(engine)
    try:
        with engine.connect():
            return engine
    except SQLAlchemyError as error:
        engine.dispose()
        cause = str(getattr(error, "orig", None) or error).strip()
        if "malformed" in cause:  # SQLite's own word
            raise DatabaseDamaged(without_passwords(given), cause) from error
        hint = (
            why_not_opened(Path(engine.url.database or "").absolute().parent)
            if engine.dialect.name == "sqlite"
            else "is the server running, and are host, name, user and password right?"
        )
        raise DatabaseUnavailable(without_passwords(given), f"{cause}; {hint}") from error


def why_not_opened(folder: Path) -> str:
    """Return a hint for the user if SQLite can't open a database in this folder."""
    with suppress(OSError):
        disk = shutil.disk_usage(folder)
        if disk.total and disk.free < ROOM:  # total is 0 in /proc and the like, which are no disks
            return f"the disk of {folder} is full, make room"
    return "is the file a database of convtune, and may this user write it and its folder?"


def _postgresql(given: URL) -> Engine:
    url = given.set(drivername="postgresql+psycopg")
    try:
        engine = create_engine(
            url,
            json_serializer=to_json,
            json_deserializer=from_json,
            max_overflow=35,  # and 5 in the pool: one for each of a web server's 40 threads
            connect_args={
                name: value for name, value in CONNECTION_TIMEOUTS.items() if name not in url.query
            },
        )
    except ModuleNotFoundError as error:
        raise DatabaseUnavailable(
            without_passwords(given), "its driver is missing; pip install 'convtune[postgres]'"
        ) from error
    from db.sql.connections.postgres_pool import replace_dead_connections  # noqa: PLC0415  # it needs the driver

    replace_dead_connections(engine)
    return engine


def _sqlite(url: URL, busy_seconds: float, *, read_only: bool) -> Engine:
    path = Path(str(url.database))  # parsed() has refused a URL without a file
    try:
        folder = path.absolute().parent
    except FileNotFoundError as error:
        why = "the working folder was removed; change to another one"
        raise DatabaseUnavailable(without_passwords(url), why) from error
    if not folder.is_dir():
        raise DatabaseUnavailable(
            without_passwords(url), f"there is no folder {folder}; create it first"
        )
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        json_serializer=to_json,
        json_deserializer=from_json,
        max_overflow=35,
        pool_use_lifo=True,  # use few connections: each caches prepared statements of its own
        connect_args={"timeout": busy_seconds},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # db.sql.transaction runs BEGIN, not the driver
        connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        refuse_foreign([name for (name,) in tables])  # before anything is changed
        if not read_only:
            _use_wal(connection, busy_seconds)

    follow = connect_read_only if read_only else replace_stale_connections
    follow(engine, path)
    return engine


def _use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    # SQLite does not apply busy_timeout to this change, and another process may be starting too
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
