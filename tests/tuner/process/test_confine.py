"""A confined process: what it cannot do, and what it still can."""

import errno
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.measure import remote
from tuner.errors import ChildCrashed, ChildError
from tuner.process.child import Child
from tuner.process.confine import FILE_BYTES, LANDLOCK_CREATE_RULESET, OOM_SCORE, X32, Confinement

LONG = 60.0
MEMORY = 2 << 30
GETPID = 39


def landlock() -> int:
    """Return the version of this kernel's Landlock, negative if it has none."""
    import ctypes

    return int(ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1))


files = pytest.mark.skipif(landlock() < 3, reason="no Landlock here that knows truncate")
calls = pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "own"
    made.mkdir()
    return made


@pytest.fixture
def child(folder: Path) -> Iterator[Child]:
    child = Child(confinement=Confinement(MEMORY, str(folder)))
    yield child
    child.close()


@pytest.fixture
def limited() -> Iterator[Child]:
    """Yield a child with resource limits only: no folder and no filter of system calls."""
    child = Child(confinement=Confinement(MEMORY))
    yield child
    child.close()


@pytest.fixture
def other() -> Iterator[int]:
    """Yield the id of a process that does not belong to the child; it must survive the test."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process.pid
    assert process.poll() is None
    process.kill()
    process.wait()


@pytest.mark.parametrize("which", ["child", "limited"])
def test_confined_process_has_limited_memory(which: str, request: pytest.FixtureRequest) -> None:
    child: Child = request.getfixturevalue(which)
    assert child.call(remote.allocate, 1 << 20, timeout=LONG) == 1 << 20
    with pytest.raises(ChildError, match="MemoryError"):
        child.call(remote.allocate, MEMORY, timeout=LONG)
    assert child.call(remote.same, 1, timeout=LONG) == 1


@pytest.mark.parametrize("which", ["child", "limited"])
def test_confined_process_writes_files_of_limited_size(
    which: str, request: pytest.FixtureRequest, folder: Path
) -> None:
    """Files have a size limit. The test files are sparse: only their last byte is on the disk."""
    child: Child = request.getfixturevalue(which)
    large = folder / "large"
    with pytest.raises(ChildError, match="File too large"):
        child.call(remote.write_beyond, large, FILE_BYTES, timeout=LONG)
    assert large.stat().st_size == FILE_BYTES
    large.unlink()
    with pytest.raises(ChildError, match="File too large"):
        child.call(remote.stretch, large, FILE_BYTES + 1, timeout=LONG)
    child.call(remote.stretch, large, FILE_BYTES, timeout=LONG)
    large.unlink()


def test_confining_a_process_keeps_its_lower_limits(folder: Path) -> None:
    lower = MEMORY // 2
    child = Child()
    try:
        found = child.call(
            remote.confined_below, Confinement(MEMORY, str(folder)), lower, timeout=LONG
        )
    finally:
        child.close()
    assert found == {
        "RLIMIT_DATA": (lower, lower),
        "RLIMIT_FSIZE": (lower, lower),
        "RLIMIT_CORE": (0, 0),
    }


def test_other_limits_hold_without_a_memory_limit() -> None:
    child = Child(confinement=Confinement())
    try:
        found = child.call(remote.limits, timeout=LONG)
    finally:
        child.close()
    assert found["RLIMIT_DATA"] == resource.getrlimit(resource.RLIMIT_DATA)
    assert found["RLIMIT_FSIZE"] == (FILE_BYTES, FILE_BYTES)
    assert found["RLIMIT_CORE"] == (0, 0)


@pytest.mark.parametrize("which", ["child", "limited"])
def test_confined_process_is_killed_first_and_gains_no_privileges(
    which: str, request: pytest.FixtureRequest
) -> None:
    """If memory runs out, the kernel kills the child first. Setuid programs give it no rights."""
    child: Child = request.getfixturevalue(which)
    pid = child.call(remote.pid, timeout=LONG)
    assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) == OOM_SCORE
    assert "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text()


def test_process_with_limits_alone_writes_anywhere_and_starts_processes(
    limited: Child, tmp_path: Path
) -> None:
    limited.call(remote.write, tmp_path / "outside", timeout=LONG)
    assert limited.call(remote.run_program, timeout=LONG) == 0
    assert (tmp_path / "outside").read_text() == "written"


@files
def test_confined_process_writes_in_its_folder_only(
    child: Child, folder: Path, tmp_path: Path
) -> None:
    child.call(remote.write, folder / "inside", timeout=LONG)
    child.call(remote.write, Path("/dev/null"), timeout=LONG)
    outside, there = tmp_path / "outside", tmp_path / "there"
    there.write_text("mine")
    refused: list[tuple[Any, ...]] = [
        (remote.write, there),
        (remote.remove, there),
        (remote.truncate, there),
        (remote.rename, there, outside),
        (remote.rename, there, folder / "taken"),
        (remote.rename, folder / "inside", there),
        (remote.link, there, outside),
        (remote.link, folder / "inside", outside),
        (remote.symlink, there, outside),
        (remote.make_folder, outside),
        (remote.write, outside),
    ]
    for call in refused:
        with pytest.raises(ChildError, match=r"PermissionError|Invalid cross-device link"):
            child.call(*call, timeout=LONG)
    assert (outside.is_symlink(), outside.exists(), there.read_text()) == (False, False, "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "there"]
    assert [path.name for path in folder.iterdir()] == ["inside"]
    assert (folder / "inside").read_text() == "written"


@files
def test_symlink_does_not_lead_a_confined_process_out_of_its_folder(
    child: Child, folder: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    child.call(remote.symlink, there, folder / "way", timeout=LONG)
    with pytest.raises(ChildError, match="PermissionError"):
        child.call(remote.write, folder / "way", timeout=LONG)
    assert there.read_text() == "mine"


@files
def test_confined_process_writes_to_its_named_devices_only(folder: Path) -> None:
    """A device must be named to be written, because Landlock treats devices as files. /dev/full
    answers a permitted write with "No space left". A device that does not exist is ignored."""
    named = Child(confinement=Confinement(MEMORY, str(folder), ("/dev/full", "/dev/absent")))
    unnamed = Child(confinement=Confinement(MEMORY, str(folder)))
    try:
        with pytest.raises(ChildError, match="No space left"):
            named.call(remote.write, Path("/dev/full"), timeout=LONG)
        with pytest.raises(ChildError, match="PermissionError"):
            unnamed.call(remote.write, Path("/dev/full"), timeout=LONG)
    finally:
        named.close()
        unnamed.close()


@pytest.fixture
def with_devices(folder: Path) -> Iterator[Child]:
    child = Child(confinement=Confinement(MEMORY, str(folder), ("/dev/full",)))
    yield child
    child.close()


def test_confined_process_with_devices_can_name_its_threads(with_devices: Child) -> None:
    """CUDA names its threads by files in /proc, and does not start if it cannot."""
    assert with_devices.call(remote.name_threads, "cuda-thread", timeout=LONG) == "cuda-thread"


@files
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write what belongs to root")
def test_confined_process_with_devices_cannot_write_its_threads_oom_score(
    with_devices: Child,
) -> None:
    score = Path("/proc/thread-self/oom_score_adj")
    with pytest.raises(ChildError, match="PermissionError"):
        with_devices.call(remote.write_number, score, 0, timeout=LONG)


@calls
def test_confined_process_may_arrange_its_own_threads_and_sockets(child: Child) -> None:
    """Runtimes may set their own threads' affinity, scheduling, priority and names, and may use
    sockets between threads."""
    child.call(remote.arrange_itself, timeout=LONG)


@files
def test_confined_process_cannot_rename_another_process(child: Child, other: int) -> None:
    with pytest.raises(ChildError, match="PermissionError"):
        child.call(remote.write, Path(f"/proc/{other}/comm"), timeout=LONG)


@calls
def test_confined_process_changes_neither_modes_nor_owners(child: Child, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    before = there.stat()
    for call in (remote.change_mode, remote.change_owner):
        with pytest.raises(ChildError, match="PermissionError"):
            child.call(call, there, timeout=LONG)
    assert there.stat().st_mode == before.st_mode


@calls
def test_confined_process_starts_threads_but_no_processes(child: Child) -> None:
    assert child.call(remote.start_thread, timeout=LONG)
    for call in (remote.fork, remote.run_program):
        with pytest.raises(ChildError, match="PermissionError"):
            child.call(call, timeout=LONG)


@calls
def test_system_calls_by_x32_numbers_are_refused(child: Child) -> None:
    """The filter refuses all system calls by x32 numbers, even harmless ones, before a kernel
    without x32 could answer that it does not know them."""
    assert child.call(remote.call, GETPID, timeout=LONG) == 0
    assert child.call(remote.call, GETPID | X32, timeout=LONG) == errno.EPERM


@calls
def test_confined_process_signals_itself_only(child: Child, other: int) -> None:
    for process in (other, os.getpid()):
        with pytest.raises(ChildError, match="PermissionError"):
            child.call(remote.signal_process, process, timeout=LONG)
    with pytest.raises(ChildCrashed, match="SIGABRT"):
        child.call(remote.noisy, 1, timeout=LONG)


@calls
def test_confined_process_cannot_limit_another_process(child: Child, other: int) -> None:
    child.call(remote.limits, timeout=LONG)
    with pytest.raises(ChildError, match="PermissionError"):
        child.call(remote.limit_process, other, timeout=LONG)


@pytest.mark.skipif(landlock() < 6, reason="this kernel's Landlock has no scopes")
def test_confined_process_cannot_signal_another_process_by_fcntl(child: Child, other: int) -> None:
    """The filter allows ``fcntl``, by which a process can have the kernel signal another process.
    Landlock's scopes prevent this."""
    child.call(remote.signal_by_file, other, signal.SIGTERM, timeout=LONG)
    assert not remote.gone(other, within=0.1)


@calls
def test_confined_process_reaches_no_network(child: Child) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, pytest.raises(ChildError, match="PermissionError"):
        child.call(remote.connect, socket.AF_INET, server.getsockname(), timeout=LONG)


@calls
def test_confined_process_reaches_no_socket_of_another_process(
    child: Child, tmp_path: Path
) -> None:
    """The child reaches no socket of another process, neither by a file, at which a database may
    listen, nor by an abstract name."""
    for address in (str(tmp_path / "socket"), f"\0convtune-{os.getpid()}"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(address)
            server.listen()
            with pytest.raises(ChildError, match="ConnectionRefusedError"):
                child.call(remote.connect, socket.AF_UNIX, address, timeout=LONG)


def test_child_does_not_see_the_database_url_or_password(
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
