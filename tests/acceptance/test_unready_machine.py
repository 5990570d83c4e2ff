"""A worker whose machine lacks something for a while loses no job, and needs no restart."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import Database, Start, until
from runs import Bench
from structlog.testing import capture_logs

from db import queue
from tuner.build.linker import linker
from tuner.errors import NotReady
from tuner.job.job import JobRun
from tuner.process.scratch import LOCK, PREFIX, scratch
from tuner.process.stopping import Stopped
from tuner.settings import Settings
from tuner.worker import worker as room

SHAPE = {"M": 20, "N": 3}


def ended(database: Database, job: queue.Job) -> queue.Job:
    return until(lambda: (now := queue.get(database.engine, job.id)).ended and now)


def test_a_scratch_folder_that_was_cleaned_away_is_made_anew(
    database: Database, start: Start, tmp_path: Path
) -> None:
    """systemd-tmpfiles removes files in /tmp that an idle worker has not used for ten days."""
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


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The compiler of this test, which may remove it."""
    link = tmp_path / "c++"
    link.symlink_to(linker())
    monkeypatch.setenv("CXX", str(link))
    return link


@pytest.fixture
def worker(
    database: Database,
    bench: Bench,
    compiler: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[room.Worker]:
    """A worker in this process."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    settings = Settings(build_workers=1, scratch_bytes=10_000)
    with scratch() as own:
        made = room.Worker(database.engine, bench.device, settings, scratch=own)
        yield made
        made.close()


Mend = Callable[[], None]


def run_until_idle(worker: room.Worker, monkeypatch: pytest.MonkeyPatch, mend: Mend) -> list[str]:
    """Run the worker, mend the machine if the worker waits, and stop the worker once it is idle.

    Return the events of its log.
    """
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) > 1:
            raise Stopped
        assert seconds == room.READY_SECONDS
        mend()

    monkeypatch.setattr(room, "pause", pause)
    with capture_logs() as said, pytest.raises(Stopped):
        worker.run()
    return [line["event"] for line in said]


@pytest.mark.parametrize("gone", ["before a job", "during a job"])
def test_a_compiler_that_is_gone_for_a_moment_costs_no_job(
    database: Database,
    worker: room.Worker,
    compiler: Path,
    monkeypatch: pytest.MonkeyPatch,
    gone: str,
) -> None:
    jobs = [database.submit(SHAPE | {"M": size}, trials=2) for size in (20, 21)]
    away, run = compiler.with_name("away"), JobRun.run

    def run_without(job_run: JobRun) -> None:
        compiler.rename(away)
        run(job_run)

    def mend() -> None:
        away.rename(compiler)
        monkeypatch.setattr(JobRun, "run", run)

    if gone == "before a job":
        compiler.rename(away)
    else:
        monkeypatch.setattr(JobRun, "run", run_without)
    events = run_until_idle(worker, monkeypatch, mend)
    for job, released in zip(jobs, (1, 0), strict=True):
        now = queue.get(database.engine, job.id)
        assert (now.state, now.error, now.released) == ("succeeded", None, released)
        assert [trial.status for trial in database.trials(job)] == ["ok", "ok"]
    assert events.count("machine_not_ready") == 1


def test_disk_that_is_full_for_a_while_costs_no_job(
    database: Database, worker: room.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = database.submit(SHAPE, trials=1)
    free = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: free(folder)._replace(free=0))
    events = run_until_idle(
        worker, monkeypatch, lambda: monkeypatch.setattr(shutil, "disk_usage", free)
    )
    now = queue.get(database.engine, job.id)
    assert (now.state, now.attempt, now.released) == ("succeeded", 2, 1)
    assert events.index("job_released") < events.index("machine_not_ready")


def test_scratch_folder_removed_during_a_job_costs_no_job(
    database: Database, worker: room.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = database.submit(SHAPE, trials=1)
    run, folder = JobRun.run, Path(tempfile.gettempdir())

    def run_without(job_run: JobRun) -> None:
        shutil.rmtree(folder)
        run(job_run)

    monkeypatch.setattr(JobRun, "run", run_without)
    run_until_idle(worker, monkeypatch, lambda: monkeypatch.setattr(JobRun, "run", run))
    assert queue.get(database.engine, job.id).state == "succeeded"
    assert folder.exists()


def test_worker_with_once_does_not_wait_for_a_ready_machine(
    database: Database, worker: room.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = database.submit(SHAPE, trials=1)

    def find_no_descriptor(job_run: JobRun) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(JobRun, "run", find_no_descriptor)
    with pytest.raises(NotReady, match=r"Too many open files.*ulimit -n"):
        worker.run(once=True)
    assert queue.get(database.engine, job.id).state == "queued"


def test_too_large_job_fails_and_the_worker_goes_on(
    database: Database, worker: room.Worker
) -> None:
    jobs = [database.submit(SHAPE | {"M": size}, trials=1) for size in (5000, 20)]
    worker.run(once=True)
    large, small = (queue.get(database.engine, job.id) for job in jobs)
    assert (large.state, small.state) == ("failed", "succeeded")
    assert large.error is not None
    assert "TUNER_SCRATCH_BYTES allows 10000; order a smaller shape" in large.error
