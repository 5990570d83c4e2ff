"""A child is forked from a server that has imported its modules, and is as isolated as a process
that was started anew."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.processes import until
from tests.tuner.measure import remote
from tests.tuner.measure.remote import gone
from tuner.errors import ChildCrashed, ChildFailed, MachineError
from tuner.process.child import Child

LONG = 30.0
SECONDS = 20.0
IMPORTED = "colorsys"
"""A module of the standard library that nothing else in these tests imports."""

TWO_FORKS = """
import errno, os
forks = []
fork = os.fork
def fork_but_for_the_second():
    forks.append(None)
    if len(forks) == 2:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()
os.fork = fork_but_for_the_second
"""
"""The source of a module; a fork server that has imported it fails at its second fork."""


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child({"PLANTED": "forked"}, importing=[IMPORTED])
    yield child
    child.close()


def server_of(child: Child) -> int:
    return child.call(remote.parent, timeout=LONG)


def test_named_module_is_imported_before_the_first_call(child: Child) -> None:
    assert child.call(remote.imported, IMPORTED, timeout=LONG)
    plain = Child({"PLANTED": "forked"})
    assert not plain.call(remote.imported, IMPORTED, timeout=LONG)
    plain.close()


@pytest.mark.parametrize("module", ["no_such_module", "broken"])
def test_call_succeeds_without_a_module_that_cannot_be_imported(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("raise OSError('its library is gone')\n")
    monkeypatch.syspath_prepend(tmp_path)
    child = Child(importing=[module])
    assert child.call(remote.same, 1, timeout=LONG) == 1
    child.close()


def test_missing_module_that_every_call_needs_is_a_machine_error() -> None:
    """The error blames the machine and not a candidate."""
    child = Child(importing=["tvm.no_such_module"])
    with pytest.raises(MachineError, match=r"No module named 'tvm\.no_such_module'"):
        child.call(remote.same, 1, timeout=LONG)
    child.close()


def test_files_in_the_working_folder_are_not_imported_as_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("queue", "random", "templates", "tuner"):
        (tmp_path / f"{name}.py").write_text("raise OSError('a file of the user')\n")
    monkeypatch.chdir(tmp_path)
    child = Child(importing=["tuner.compare.stage"])
    assert child.call(remote.imported, "tuner.compare.stage", timeout=LONG)
    child.close()


def test_importing_tvm_does_not_import_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tvm_ffi would ask PyTorch for GPUs, which opens CUDA. CUDA does not work in a process that is
    forked after that."""
    (tmp_path / "torch.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    child = Child(importing=["tvm_ffi", "no_other_server_has_this"])
    assert child.call(remote.imported, "tvm_ffi", timeout=LONG)
    for name in ("torch", "cuda.bindings.driver"):
        assert not child.call(remote.imported, name, timeout=LONG)
        child.call(remote.load, name, timeout=LONG)  # a child can still import it
    child.close()


def test_pytorch_is_imported_last_if_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(f"import sys\nassert {IMPORTED!r} in sys.modules\n")
    monkeypatch.syspath_prepend(tmp_path)
    child = Child(importing=["torch", IMPORTED])
    assert child.call(remote.imported, "torch", timeout=LONG)
    child.close()


def test_children_share_a_server_and_nothing_else(child: Child, tmp_path: Path) -> None:
    other = Child({"PLANTED": "forked"}, importing=[IMPORTED])
    assert server_of(child) == server_of(other) not in {os.getpid(), child.pid}
    assert child.pid != other.pid
    with pytest.raises(ChildFailed):
        child.call(remote.crash, timeout=LONG)
    assert other.call(remote.same, 1, timeout=LONG) == 1
    other.close()


def test_child_has_no_open_socket_or_file_of_its_server(child: Child) -> None:
    """A candidate that could reach the fork server could ask it for a process without limits."""
    assert len(child.call(remote.descriptors, timeout=LONG)) == 1
    # The one open file is the folder in /proc by which the child lists its files.
    assert child.call(remote.open_files, timeout=LONG) == 1


def test_child_has_its_parents_working_folder_and_environment(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATER", "seen")
    later = Child({"PLANTED": "forked"}, importing=[IMPORTED])
    later.call(remote.write, Path("here"), timeout=LONG)
    assert (tmp_path / "here").read_text() == "written"
    assert later.call(remote.variable, "LATER", timeout=LONG) == "seen"
    later.close()


def test_child_has_its_own_temporary_folder_whatever_its_server_has_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python keeps the first answer. Some modules, such as PyTorch's compiler, ask at import."""
    (tmp_path / "asks_at_import.py").write_text("import tempfile\ntempfile.gettempdir()\n")
    monkeypatch.syspath_prepend(tmp_path)
    child = Child({"TMPDIR": str(tmp_path)}, importing=["asks_at_import"])
    assert child.call(remote.temporary_folder, timeout=LONG) == str(tmp_path)
    child.close()


def test_child_works_in_the_root_if_its_parents_folder_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(".")
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    child = Child(importing=["no_other_server_has_this_either"])
    child.call(remote.pid, timeout=LONG)
    assert Path(f"/proc/{child.pid}/cwd").readlink() == Path("/")
    child.close()


def test_killed_server_ends_its_children_and_is_replaced(child: Child) -> None:
    first, server = child.call(remote.pid, timeout=LONG), server_of(child)
    os.kill(server, signal.SIGKILL)
    assert gone(first)
    assert server_of(child) != server


def test_failed_fork_fails_only_its_own_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the machine can make no process for a moment, one call fails; server and children stay."""
    (tmp_path / "two_forks.py").write_text(TWO_FORKS)
    monkeypatch.syspath_prepend(tmp_path)
    first, second = (Child(importing=["two_forks"]) for _ in range(2))
    server = server_of(first)
    with pytest.raises(ChildCrashed, match=r"no process could be started: .*unavailable"):
        second.call(remote.pid, timeout=LONG)
    assert server_of(first) == server
    assert server_of(second) == server
    for child in (first, second):
        child.close()


def test_child_that_ends_as_it_starts_is_reported_with_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = Child(niceness=-20)  # an unprivileged process may not raise its priority
    if os.geteuid() == 0:
        monkeypatch.setattr(child, "_niceness", "none")
    with pytest.raises(ChildCrashed, match=r"exit code 1\): Traceback"):
        child.call(remote.pid, timeout=LONG)
    child.close()


def test_ended_child_leaves_no_zombie(child: Child) -> None:
    server = server_of(child)
    child.close()

    def has_none() -> bool:
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(server)], capture_output=True, text=True, check=False
        )
        return listed.stdout.split() == []

    until(has_none, 10)  # the server reaps its children a moment after they end
