"""What a confined process can't do, and what it still can."""

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuner.measure import remote
from tuner.errors import ChildCrashed, ChildError
from tuner.measure.child import Child
from tuner.measure.confine import LANDLOCK_CREATE_RULESET, Confinement

LONG = 60.0
MEMORY = 2 << 30


def landlock() -> int:
    import ctypes

    return int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1))


files = pytest.mark.skipif(landlock() < 1, reason="this kernel has no Landlock")
calls = pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "own"
    made.mkdir()
    return made


@pytest.fixture
def child(folder: Path) -> Iterator[Child]:
    child = Child(confinement=Confinement((str(folder),), MEMORY))
    yield child
    child.close()


def test_memory_ends(child: Child) -> None:
    assert child.call(remote.allocate, 1 << 20, timeout=LONG) == 1 << 20
    with pytest.raises(ChildError, match="MemoryError"):
        child.call(remote.allocate, MEMORY, timeout=LONG)
    assert child.call(remote.same, 1, timeout=LONG) == 1


@files
def test_it_writes_in_its_folder_alone(child: Child, folder: Path, tmp_path: Path) -> None:
    child.call(remote.write, folder / "inside", timeout=LONG)
    child.call(remote.write, Path("/dev/null"), timeout=LONG)
    outside, there = tmp_path / "outside", tmp_path / "there"
    there.write_text("mine")
    for call in (remote.write, remote.remove):
        with pytest.raises(ChildError, match="PermissionError"):
            child.call(call, there, timeout=LONG)
    with pytest.raises(ChildError, match="PermissionError"):
        child.call(remote.write, outside, timeout=LONG)
    assert (outside.exists(), there.read_text()) == (False, "mine")
    assert (folder / "inside").read_text() == "written"


@calls
def test_it_starts_threads_but_no_process(child: Child) -> None:
    assert child.call(remote.start_thread, timeout=LONG)
    for call in (remote.fork, remote.run_program):
        with pytest.raises(ChildError, match="PermissionError"):
            child.call(call, timeout=LONG)


@calls
def test_it_signals_itself_alone(child: Child) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    for process in (other.pid, os.getpid()):
        with pytest.raises(ChildError, match="PermissionError"):
            child.call(remote.signal_process, process, timeout=LONG)
    assert other.poll() is None
    other.kill()
    other.wait()
    with pytest.raises(ChildCrashed, match="SIGABRT"):
        child.call(remote.noisy, 1, timeout=LONG)


@calls
def test_it_reaches_no_network(child: Child) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, pytest.raises(ChildError, match="PermissionError"):
        child.call(remote.connect, socket.AF_INET, server.getsockname(), timeout=LONG)


def test_no_child_is_told_where_the_database_is(
    monkeypatch: pytest.MonkeyPatch, child: Child
) -> None:
    monkeypatch.setenv("TUNER_DATABASE_URL", "postgresql://someone:secret@host/name")
    monkeypatch.setenv("PGPASSWORD", "secret")
    told = Child()
    try:
        for name in ("TUNER_DATABASE_URL", "PGPASSWORD"):
            assert told.call(remote.variable, name, timeout=LONG) is None
    finally:
        told.close()
