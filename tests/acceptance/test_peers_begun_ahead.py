"""The spare processes of peers that a worker keeps.

Each job uses the process that the job before started ahead, however either of them ends.
"""

from contextlib import closing

import pytest
from processes import Database, started, until
from runs import Bench, cancel_after

from db import queue
from db.results import best
from tuner.peers import HOST
from tuner.settings import Settings
from tuner.worker.worker import Worker

SHAPES = [{"M": 300, "N": 8}, {"M": 310, "N": 8}, {"M": 320, "N": 8}]


@pytest.fixture
def worker(database: Database, bench: Bench) -> Worker:
    return Worker(database.engine, bench.device, Settings(build_workers=1))


def test_each_job_uses_the_peer_process_that_the_job_before_started(
    database: Database, worker: Worker
) -> None:
    assert worker._peers is not None
    before = started()
    with closing(worker):
        for place, shape in enumerate(SHAPES):
            job = database.submit(shape, trials=2, baselines="all")
            claimed = worker.claim("cpu", job.id)
            assert claimed is not None
            spare = next(iter(worker._peers._spare.get(HOST, [])), None)
            assert (spare is not None) == (place > 0)
            if place < 2:
                worker.take(claimed)
                found = best.lookup(database.engine, job.workload_key)[0]
                assert "numpy.convolve" in {row["name"] for row in found.baselines}
            else:
                worker.take(claimed, cancel_after(1, database, job))
                assert queue.get(database.engine, job.id).state == "cancelled"
            if spare is not None:
                assert spare._child.pid is None  # this job used it, and it ended with the job
            assert worker._peers._spare[HOST][0] is not spare
    until(lambda: started() <= before)


def test_job_without_peers_starts_no_peer_process(database: Database, worker: Worker) -> None:
    assert worker._peers is not None
    with closing(worker):
        for baselines in ("all", "none"):
            job = database.submit(SHAPES[0], trials=1, baselines=baselines, on_existing="retune")
            claimed = worker.claim("cpu", job.id)
            assert claimed is not None
            worker.take(claimed)
            assert worker._peers._spare.keys() == ({HOST} if baselines == "all" else set())
