"""A kept worker stays, with its processes, until its owner ends it."""

import gc
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from db import queue
from db.contract.order import JobOrder
from db.fleet.workers import list_workers
from templates.conv1d.workload import Conv1dWorkload
from tests import databases
from tests.db.storage_rows import submitted
from tuner.device.detect import detect
from tuner.device.device import Device
from tuner.job.progress import Progress
from tuner.process.scratch import LOCK, temporary_folder
from tuner.settings import Settings
from tuner.worker.kept_worker import KeptWorker
from tuner.worker.worker import Worker


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = databases.opened(tmp_path / "convtune.db")
    yield engine
    engine.dispose()


@pytest.fixture
def kept(engine: Engine, temporary: Path) -> Iterator[KeptWorker]:
    kept = KeptWorker(engine, Settings(build_workers=1))
    yield kept
    kept.close()


@pytest.fixture(scope="module")
def device() -> Device:
    return detect("cpu")


@contextmanager
def acquired(kept: KeptWorker, device: Device) -> Iterator[tuple[Worker, Path]]:
    """Acquire the worker; yield it and its scratch folder, in which a temporary file is left."""
    with kept.acquire(device) as worker:
        folder = temporary_folder()
        (folder / "left").touch()
        yield worker, folder


def test_next_job_has_the_same_worker(
    kept: KeptWorker, engine: Engine, device: Device, temporary: Path
) -> None:
    with acquired(kept, device) as (worker, folder):
        assert folder.parent == temporary
        job = submitted(engine)
        claimed = worker.claim("cpu", job.id)
        assert claimed is not None
        queue.cancel(engine, job.id)
        worker.take(claimed)
    assert queue.get(engine, job.id).state == "cancelled"
    assert list_workers(engine) == []  # not listed: others' jobs would wait for it in vain
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(temporary)
    with acquired(kept, detect("cpu")) as again:
        assert again == (worker, folder)
    kept.close()
    assert list(temporary.iterdir()) == []


def test_job_writes_all_temporary_files_to_the_scratch_folder(
    kept: KeptWorker, engine: Engine, device: Device, temporary: Path
) -> None:
    seen = set[Path]()

    def look(_: Progress) -> None:
        seen.update(temporary.iterdir(), *(path.iterdir() for path in temporary.glob("*/")))

    job, _ = queue.submit(engine, JobOrder.of(Conv1dWorkload(M=64, N=3), target="cpu", trials=1))
    with acquired(kept, device) as (worker, folder):
        claimed = worker.claim("cpu", job.id)
        assert claimed is not None
        worker.take(claimed, look)
    assert queue.get(engine, job.id).state == "succeeded"
    assert {path for path in seen if path.parent == temporary} == {
        folder,
        folder.with_name(f"{folder.name}{LOCK}"),
    }
    prefixes = {path.name.rpartition("-")[0] for path in seen if path.parent == folder}
    assert prefixes >= {"convtune-job", "convtune-cases"}


def test_programs_own_temporary_files_outlive_the_kept_worker(
    kept: KeptWorker, device: Device, temporary: Path
) -> None:
    with acquired(kept, device), ThreadPoolExecutor(1) as thread:
        own = {tempfile.mkdtemp(), thread.submit(tempfile.mkdtemp).result()}
    kept.close()
    assert {str(path) for path in temporary.iterdir()} == own


def test_kept_workers_of_two_threads_leave_the_temporary_folder_as_it_was(
    kept: KeptWorker, engine: Engine, device: Device, temporary: Path
) -> None:
    """The second worker is acquired before the first is left, and left after it."""
    second_began, first_ended = threading.Event(), threading.Event()

    def use_another() -> None:
        another = KeptWorker(engine, Settings(build_workers=1))
        with closing(another), another.acquire(device):
            second_began.set()
            first_ended.wait()

    with ThreadPoolExecutor(1) as thread:
        with kept.acquire(device):
            second = thread.submit(use_another)
            second_began.wait()
        kept.close()
        first_ended.set()
        second.result()
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(temporary)


def test_each_device_has_its_own_kept_worker(kept: KeptWorker, device: Device) -> None:
    with acquired(kept, device) as (worker, folder):
        pass
    with acquired(kept, replace(device, name="another")) as (other, its_folder):
        assert other is not worker
        assert its_folder != folder
        assert not folder.exists()


def test_interrupt_ends_the_kept_worker(kept: KeptWorker, device: Device, temporary: Path) -> None:
    with pytest.raises(KeyboardInterrupt), acquired(kept, device):
        raise KeyboardInterrupt
    assert list(temporary.iterdir()) == []
    with acquired(kept, device) as (_, folder):
        assert folder.exists()


def test_removed_folder_of_a_kept_worker_is_made_anew(kept: KeptWorker, device: Device) -> None:
    with acquired(kept, device) as (_, folder):
        pass
    shutil.rmtree(folder)
    with acquired(kept, device) as (_, another):
        assert another.exists()


def test_threads_use_a_kept_worker_in_turns(kept: KeptWorker, device: Device) -> None:
    inside = threading.Semaphore()

    def work(_: int) -> bool:
        with acquired(kept, device):
            alone = inside.acquire(blocking=False)
            time.sleep(0.05)
            inside.release()
            return alone

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))


def test_kept_worker_ends_with_its_owner_but_not_with_a_forked_child(
    engine: Engine, device: Device, temporary: Path
) -> None:
    """A forked child does not remove the worker's folder, because it belongs to the parent. The
    folder is removed when the worker's owner ends."""
    kept = KeptWorker(engine, Settings(build_workers=1))
    with acquired(kept, device) as (_, folder):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks with threads
        pid = os.fork()
    if pid == 0:
        kept.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert folder.exists()
    del kept
    gc.collect()
    assert list(temporary.iterdir()) == []
