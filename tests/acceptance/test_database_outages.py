"""A database that does not answer for a while ends no worker and loses no job."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from processes import Database, Worker, until
from runs import Bench, cancel_after
from structlog.testing import capture_logs

from db import queue
from db.fleet import workers
from db.sql.errors import DatabaseUnavailable
from tests.acceptance.impatient_worker import impatient
from tuner.job.job import Progress
from tuner.job.lease import Cancelled, Lease
from tuner.settings import Settings
from tuner.worker import worker

SHAPE = {"M": 512, "N": 8}


@contextmanager
def locked(database: Database) -> Iterator[None]:
    """Keep SQLite's write lock."""
    with closing(sqlite3.connect(database.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@pytest.fixture
def hurried(database: Database, bench: Bench) -> Iterator[worker.Worker]:
    """A worker in this process for which a locked database is unavailable at once."""
    engine = impatient(database.url)
    made = worker.Worker(engine, bench.device, Settings(build_workers=2))
    yield made
    made.close()
    engine.dispose()


def test_idle_worker_survives_a_locked_database(database: Database, tmp_path: Path) -> None:
    waiting = Worker(
        database.url, tmp_path, module=["tests.acceptance.impatient_worker", database.url]
    )
    until(lambda: workers.list_workers(database.engine))
    with locked(database):
        time.sleep(3)
        assert waiting.process.poll() is None
    job = database.submit(SHAPE, trials=1)
    until(lambda: queue.get(database.engine, job.id).state == "running")
    code, _ = waiting.stop()
    assert code == 0
    (failed, *_) = waiting.said("database_unavailable")
    assert "locked" in failed["reason"]
    assert queue.get(database.engine, job.id).state == "queued"


def test_worker_leaves_a_job_to_its_lease_if_the_database_is_locked(
    database: Database, hurried: worker.Worker, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=3)
    lock = locked(database)

    def stop_answering(progress: Progress) -> None:
        if progress.measured == 1:
            lock.__enter__()

    held = queue.claim(database.engine, hurried.name, ["cpu"])
    assert held is not None
    with capture_logs() as said:
        hurried.take(held, stop_answering)
    lock.__exit__(None, None, None)
    left = queue.get(database.engine, job.id)
    assert (left.state, left.error, left.trials_measured) == ("running", None, 1)
    assert said[-1]["event"] == "job_left_to_its_lease"
    assert "locked" in said[-1]["reason"]
    others = hurried.claim("cpu")  # first it gives back the job that it left to its lease
    assert others is not None
    given = queue.get(database.engine, job.id)
    assert (given.id, given.attempt, given.released) == (others.id, 2, 1)
    database.run_out(job)
    with pytest.raises(Cancelled):
        bench.run(database, job, watch=cancel_after(2, database, job))
    assert len({trial.config_key for trial in database.trials(job)}) == 2


def test_ending_worker_gives_back_a_job_that_it_left_to_its_lease(
    database: Database, hurried: worker.Worker
) -> None:
    job = database.submit(SHAPE, trials=3)
    lock = locked(database)
    held = queue.claim(database.engine, hurried.name, ["cpu"])
    assert held is not None
    hurried.take(held, lambda _: lock.__enter__())
    lock.__exit__(None, None, None)
    hurried.close()
    given_back = queue.get(database.engine, job.id)
    assert (given_back.state, given_back.attempt, given_back.released) == ("queued", 1, 1)


def test_worker_with_once_does_not_wait_for_the_database(
    database: Database, hurried: worker.Worker
) -> None:
    """With ``--once``, an unavailable database ends the worker at once."""
    with locked(database), pytest.raises(DatabaseUnavailable, match="locked"):
        hurried.run(once=True)


def test_lease_is_renewed_after_a_failed_heartbeat(database: Database) -> None:
    """A lease whose heartbeat has failed once is renewed by the next one."""
    database.submit(SHAPE)
    held = queue.claim(database.engine, "one", ["cpu"], lease_seconds=0)
    assert held is not None
    beats: list[None] = []
    engine = impatient(database.url)
    with capture_logs() as said, Lease(engine, held, lambda: beats.append(None), seconds=0.05):
        with locked(database):
            until(lambda: said, 10)
            count = len(beats)
        until(lambda: len(beats) > count, 10)
    engine.dispose()
    assert {line["event"] for line in said} == {"heartbeat_failed"}
    assert queue.claim(database.engine, "other", ["cpu"]) is None
