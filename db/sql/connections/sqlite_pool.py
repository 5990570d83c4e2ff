"""Replacing pooled connections to a SQLite file that was deleted or replaced.

A deleted file lives on for processes that have it open, and their writes to it are lost when they
end. So each connection is checked when it is taken from the pool. Once a connection was made, no
later one creates the file."""

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry


def replace_stale_connections(engine: Engine, path: Path) -> None:
    """Replace the engine's connections once another file is at the path. If the file is gone,
    connecting fails."""
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
    """Return device and inode of the file; None if there is none."""
    with suppress(FileNotFoundError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None
