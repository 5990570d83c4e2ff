"""A worker whose machine lacks something for a while loses no job, and needs no restart."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import Database, Worker, until

from db import queue
from tuner.process.scratch import LOCK, PREFIX

SHAPE = {"M": 20, "N": 3}
Start = Callable[..., Worker]


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Iterator[Start]:
    """Start a worker with TMPDIR in ``tmp_path``; it is killed in the end if it still lives."""
    started: list[Worker] = []

    def one(*options: str) -> Worker:
        started.append(Worker(database.url, tmp_path, *options))
        return started[-1]

    yield one
    for worker in started:
        if worker.process.poll() is None:
            worker.kill()


def ended(database: Database, job: queue.Job) -> queue.Job:
    return until(lambda: (now := queue.get(database.engine, job.id)).ended and now)


def test_a_scratch_folder_that_was_cleaned_away_is_made_anew(
    database: Database, start: Start, tmp_path: Path
) -> None:
    """systemd-tmpfiles removes what lies unused in /tmp for ten days, if its worker idles."""
    worker = start()
    assert ended(database, database.submit(SHAPE, trials=1)).state == "succeeded"
    made = set(tmp_path.glob(f"{PREFIX}*"))
    (folder,) = (path for path in made if path.is_dir())
    shutil.rmtree(folder)
    folder.with_name(f"{folder.name}{LOCK}").unlink()
    job = ended(database, database.submit(SHAPE | {"M": 21}, trials=1))
    assert (job.state, job.error, job.attempt) == ("succeeded", None, 1)
    assert set(tmp_path.glob(f"{PREFIX}*")) == made
    worker.stop()
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
