"""SQLite files with this code's schema, copied from one that was migrated: that takes a tenth of a
second each time."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from db.sql.engine import migrate, open_engine


def created(path: Path) -> str:
    """The URL of a new one."""
    path.write_bytes(_migrated())
    return f"sqlite:///{path}"


def opened(path: Path) -> Engine:
    """The engine of a new one."""
    return open_engine(created(path))


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "convtune.db"
        engine = open_engine(f"sqlite:///{path}")
        migrate(engine)
        engine.dispose()
        return path.read_bytes()
