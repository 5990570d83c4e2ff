"""SQLite databases with the current schema for tests.

They are copies of one migrated file, because a migration takes a tenth of a second each time.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from db.sql.engine import migrate, open_engine


def created(path: Path) -> str:
    """Write an empty, migrated SQLite database to ``path`` and return its URL."""
    path.write_bytes(_migrated())
    return f"sqlite:///{path}"


def opened(path: Path) -> Engine:
    """Write an empty, migrated SQLite database to ``path`` and return an engine on it."""
    return open_engine(created(path))


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "convtune.db"
        engine = open_engine(f"sqlite:///{path}")
        migrate(engine)
        engine.dispose()
        return path.read_bytes()
