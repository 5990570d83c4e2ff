"""Reading a SQLite file without changing a byte of it, even if its folder is read-only."""

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

_VERSIONS = slice(18, 20)
_WAL_VERSIONS = b"\2\2"
"""Bytes 18 and 19 of a file in WAL mode (https://sqlite.org/fileformat2.html)."""


def connect_read_only(engine: Engine, path: Path) -> None:
    """Have the engine's connections open this file read-only."""
    path = path.resolve()

    @event.listens_for(engine, "do_connect")
    def open_as_it_is(
        _dialect: Any, _entry: ConnectionPoolEntry, given: list[Any], options: dict[str, Any]
    ) -> None:
        # SQLite would make a -wal for a file in WAL mode that has none, and leave it there
        how = "mode=ro" if unlocked_state(path) is None else "immutable=1"
        given[0] = f"{path.as_uri()}?{how}"
        options["uri"] = True


def unlocked_state(path: Path) -> tuple[int, int] | None:
    """Return time (ns) and size (bytes) of a file in WAL mode without a ``-wal``; None for other
    files. Nobody has such a file open, and it is read without locks. A write changes time or
    size."""
    if not path.is_file() or path.with_name(f"{path.name}-wal").exists():
        return None
    with path.open("rb") as file:
        if file.read(_VERSIONS.stop)[_VERSIONS] != _WAL_VERSIONS:
            return None
    found = path.stat()
    return found.st_mtime_ns, found.st_size
