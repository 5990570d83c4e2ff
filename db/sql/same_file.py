"""Whether a pooled connection to SQLite still leads to the file that the database's name says.

A file that is deleted lives on for whoever has it open: what is written there is lost with the
process. So each connection is looked at when it is taken from the pool, and none makes a file."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry


def follow(engine: Engine, path: Path) -> None:
    """Have the engine's connections replaced once there is another file, or none, at the path.
    Where there is none, to connect fails."""
    path = path.absolute()
    made = False

    @event.listens_for(engine, "do_connect")
    def open_what_is_there(
        _dialect: Any, _entry: ConnectionPoolEntry, given: list[Any], options: dict[str, Any]
    ) -> None:
        if made:
            given[0] = f"{path.as_uri()}?mode=rw"
            options["uri"] = True

    @event.listens_for(engine, "connect")
    def note(_: sqlite3.Connection, entry: ConnectionPoolEntry) -> None:
        nonlocal made
        made = True
        entry.info["file"] = _identity(path)

    @event.listens_for(engine, "checkout")
    def look(_: sqlite3.Connection, entry: ConnectionPoolEntry, _proxy: Any) -> None:
        if entry.info["file"] != _identity(path):
            raise InvalidatePoolError


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(FileNotFoundError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None
