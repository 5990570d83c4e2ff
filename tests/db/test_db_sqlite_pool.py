"""A SQLite file that is deleted or replaced while the pool has connections to it."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import Engine
from storage_rows import order, submitted

from db import queue
from db.sql.engine import check_schema
from db.sql.errors import DatabaseUnavailable

pytestmark = pytest.mark.parametrize("dialect", ["sqlite"])


def file_of(engine: Engine) -> Path:
    assert engine.url.database is not None
    return Path(engine.url.database)


def remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def test_deleted_file_refuses_orders_and_is_not_created_again(engine: Engine) -> None:
    job, path = submitted(engine), file_of(engine)
    remove(path)
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable, match="unable to open"):
            queue.submit(engine, order(65))
        with pytest.raises(DatabaseUnavailable):
            queue.get(engine, job.id)
        with pytest.raises(DatabaseUnavailable):
            check_schema(engine)
    assert list(path.parent.glob(f"{path.name}*")) == []


def test_file_that_replaces_a_deleted_one_is_used(engine: Engine) -> None:
    path = file_of(engine)
    copy = shutil.copy(path, path.with_suffix(".copy"))
    submitted(engine)
    remove(path)
    Path(copy).rename(path)
    assert queue.list_jobs(engine).items == []
    submitted(engine)
    assert len(queue.list_jobs(engine).items) == 1
