"""Libraries that try to harm the host, compiled from ``misdeeds.c``, and the errors of trials."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tuner.compare.runner import Runner

SOURCE = Path(__file__).with_suffix(".c")
REFUSED = "Operation not permitted"
DENIED = "Permission denied"

MISDEEDS = {
    "allocate": "malloc: Cannot allocate memory",
    "forks": f"fork: {REFUSED}",
    "execute": f"execve: {REFUSED}",
    "create": f"create: {DENIED}",
    "overwrite": f"overwrite: {DENIED}",
    "truncates": f"truncate: {DENIED}",
    "removes": f"remove: {DENIED}",
    "renames": f"rename: {DENIED}",
    "links": f"link: {DENIED}",
    "links_by_name": f"symlink: {DENIED}",
    "make_folder": f"mkdir: {DENIED}",
    "change_mode": f"chmod: {REFUSED}",
    "segfault": "signal SIGSEGV",
    "internet": f"socket: {REFUSED}",
    "database": "connect: Connection refused",
    "signal_worker": f"kill: {REFUSED}",
    "datagram": f"socket: {REFUSED}",
    "raw_datagram": f"socket: {REFUSED}",
    "paired_datagram": f"socketpair: {REFUSED}",
    "share_memory": f"shmget: {REFUSED}",
    "share_semaphore": f"semget: {REFUSED}",
    "queue": f"msgget: {REFUSED}",
    "queue_by_name": f"mq_open: {REFUSED}",
    "keep_key": f"add_key: {REFUSED}",
    "read_keys": f"keyctl: {REFUSED}",
    "leave_namespace": f"unshare: {REFUSED}",
    "clone_namespace": f"clone: {REFUSED}",
    "enter_namespace": f"setns: {REFUSED}",
    "slow_worker": f"setpriority: {REFUSED}",
    "slow_all": f"setpriority: {REFUSED}",
    "schedule_worker": f"sched_setscheduler: {REFUSED}",
    "set_worker": f"sched_setparam: {REFUSED}",
    "attribute_worker": f"sched_setattr: {REFUSED}",
    "delay_worker": f"ioprio_set: {REFUSED}",
    "survive": f"prctl: {REFUSED}",
    "open_up": f"prctl: {REFUSED}",
    "forgive_self": f"score: {DENIED}",
    "forgive_thread": f"score: {DENIED}",
    "blame_worker": f"score: {DENIED}",
    "age": f"utime: {REFUSED}",
    "mark": f"setxattr: {REFUSED}",
    "write_on": "write: File too large",
    "write_on_unaware": "signal SIGXFSZ",
}
"""The misdeeds by name, and a part of the trial's error. Each trial ends as ``run_error``."""


def compiler() -> str:
    """Return the path of a C compiler; skip the test if there is none."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler is here")
    return found


@dataclass
class Surroundings:
    """Things that a candidate could harm: a folder with a file, a listening stream socket in it
    (``listener``), and a datagram socket (``log``)."""

    folder: Path
    listener: socket.socket
    log: socket.socket

    def library(self, misdeed: str, to: Path, text: bytes = b"") -> Path:
        """Compile the library of a misdeed into the folder ``to``; return its path. Misdeeds that
        write to the parent process write ``text``."""
        defined = {
            "MISDEED": misdeed,
            "WORKER": str(os.getpid()),
            "OUTSIDE": f'"{self.folder}"',
            "TEXT": ",".join(str(byte) for byte in text.rstrip(b"\0")),
            "LENGTH": str(len(text)),
        }
        flags = [f"-D{name}={value}" for name, value in defined.items()]
        path = to / f"{misdeed}.so"
        command = [compiler(), "-shared", "-fPIC", "-O1", "-w", *flags, str(SOURCE), "-ldl"]
        subprocess.run([*command, "-o", str(path)], check=True)
        return path

    def check_unharmed(self) -> None:
        there = self.folder / "there"
        assert there.read_text() == "mine"
        assert there.stat().st_mode & 0o777 == 0o600
        assert (there.stat().st_mtime > 1, os.listxattr(there)) == (True, [])
        names = sorted(path.name for path in self.folder.iterdir())
        assert names == ["log", "socket", "there"]
        self.listener.setblocking(False)
        with pytest.raises(BlockingIOError):  # no connection is waiting
            self.listener.accept()
        self.log.setblocking(False)
        with pytest.raises(BlockingIOError):
            self.log.recv(1)


@contextmanager
def surroundings(folder: Path) -> Iterator[Surroundings]:
    """Yield new surroundings in ``folder / "outside"``, which must not exist yet."""
    inside = folder / "outside"
    inside.mkdir()
    (inside / "there").write_text("mine")
    (inside / "there").chmod(0o600)
    with (
        socket.socket(socket.AF_UNIX) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log,
    ):
        listener.bind(str(inside / "socket"))
        listener.listen()
        log.bind(str(inside / "log"))
        yield Surroundings(inside, listener, log)


def check_costs_one_trial(
    runner: Runner, around: Surroundings, misdeed: str, right: Path, to: Path
) -> None:
    """Assert that the misdeed fails with its error, harms nothing, and that the same runner then
    measures the library ``right``."""
    measured = runner.measure(around.library(misdeed, to))
    assert (measured.status, measured.timing) == ("run_error", {})
    assert measured.error is not None and MISDEEDS[misdeed] in measured.error
    around.check_unharmed()
    assert runner.measure(right).status == "ok"
