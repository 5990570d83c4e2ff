"""A worker that has lost its lease on a job writes nothing more."""

import time
from typing import Any

import pytest
from processes import Database, until
from runs import Bench
from sqlalchemy import select

from db import queue
from db.sql.errors import LeaseLost
from db.sql.tables import metadata
from db.sql.transaction import reading
from tests.tuner.measure.planted import Planted
from tuner.job.job import Progress
from tuner.job.lease import Lease

SHAPE = {"M": 64, "N": 8}


def everything(database: Database) -> dict[str, list[Any]]:
    """Return all rows of all tables, by table."""
    with reading(database.engine) as connection:
        return {
            name: [tuple(row) for row in connection.execute(select(table))]
            for name, table in metadata.tables.items()
        }


def taken(database: Database, job: queue.Job) -> queue.Job:
    """Let the job's lease run out and have another worker claim the job."""

    def claimed() -> queue.Job | None:
        database.run_out(job)  # a heartbeat may renew it before the claim
        return queue.claim(database.engine, "other", ["cpu"])

    other = until(claimed)
    assert other is not None
    return other


@pytest.mark.parametrize("after", [0, 1, 2], ids=["planned", "one trial", "all trials"])
def test_run_that_lost_its_lease_ends_and_changes_nothing(
    database: Database, bench: Bench, after: int
) -> None:
    job = database.submit(SHAPE, trials=2, search="grid")
    left: dict[str, Any] = {}

    def steal(progress: Progress) -> None:
        if progress.measured == after:
            left.update(other=taken(database, job), rows=everything(database))

    with pytest.raises(LeaseLost, match=job.id):
        bench.run(database, job, among=[Planted()], watch=steal)
    assert everything(database) == left["rows"]
    assert len(database.trials(job)) == after
    other = left["other"]
    assert (other.worker, other.attempt, other.trials_measured) == ("other", 2, after)
    assert queue.heartbeat(database.engine, job.id, other.attempt) is False


def test_lease_taken_by_another_worker_raises_lease_lost(database: Database) -> None:
    """A lease that another worker has taken raises LeaseLost and writes nothing."""
    job = database.submit(SHAPE)
    held = queue.claim(database.engine, "one", ["cpu"])
    assert held is not None
    beats: list[None] = []
    with Lease(database.engine, held, lambda: beats.append(None), seconds=0.02) as lease:
        lease.check()
        taken(database, job)
        rows = everything(database)
        with pytest.raises(LeaseLost):
            lease.check()
        time.sleep(0.2)  # the heartbeat's thread notices the loss, too, and ends silently
    assert everything(database) == rows
