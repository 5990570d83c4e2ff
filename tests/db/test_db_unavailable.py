"""Errors of a SQLite database that can't be written say what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine
from storage_rows import submitted

from db.sql.engine import migrate, open_engine
from db.sql.errors import DatabaseFull, DatabaseUnavailable


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[Engine]:
    """A database that waits for a lock for 0.05 s only."""
    engine = open_engine(f"sqlite:///{tmp_path / 'convtune.db'}", busy_seconds=0.05)
    migrate(engine)
    yield engine
    engine.dispose()


def test_error_of_a_locked_database_says_that_another_process_writes(hurried: Engine) -> None:
    with closing(sqlite3.connect(str(hurried.url.database), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match="is locked; another process is writing"):
            submitted(hurried)
    submitted(hurried)


def test_error_of_a_full_database_says_to_make_room(hurried: Engine) -> None:
    with hurried.connect() as connection:  # the pool's only connection, which is used again
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
    with pytest.raises(DatabaseFull, match="is full; make room on the disk of"):
        for length in range(64, 1000):
            submitted(hurried, length)
