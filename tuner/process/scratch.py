"""A folder for the temporary files of a process and of those it starts.

A kill -9 lets nobody clean up, and one job's inputs and references may be hundreds of megabytes:
what lies there of processes that are gone is removed by the next that starts.

Beside each folder lies its lock, a file of the same name with a suffix. It is made before the
folder and removed after it, so nothing can be left that no lock tells of. Its holder lives: the
kernel drops the lock with the process, and knows it across containers that share a folder, where
process ids mean nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tuner.errors import NoDiskSpace

PREFIX = "convtune-"
LOCK = ".lock"
WORKING_BYTES = 4 << 20
"""What is built at once, with what it is linked of."""


@contextmanager
def scratch() -> Iterator[Path]:
    """The folder, in which Python, TVM and the compiler put their temporary files until it is
    removed at the end."""
    with scratch_folder() as folder, used_as_scratch(folder):
        yield folder


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is removed at the end, and that nobody uses yet."""
    parent = Path(tempfile.gettempdir())
    _sweep(parent)
    lock, path = _locked(parent)
    owner = os.getpid()
    try:
        folder = path.with_suffix("")
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        if os.getpid() == owner:  # or else a fork of it ends
            _remove(path)
        os.close(lock)


@contextmanager
def used_as_scratch(folder: Path) -> Iterator[None]:
    """Python, TVM and the compiler put their temporary files into the folder meanwhile."""
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        environment, tempfile.tempdir = before
        if environment is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = environment


def must_have_room(needed: int, allowed: int) -> None:
    """Raises NoDiskSpace: one order may not fill the folder that all share."""
    what, smaller = (
        "the inputs and references that candidates are checked on",
        "order a smaller shape",
    )
    if needed > allowed:
        limit = f"TUNER_SCRATCH_BYTES allows {allowed}; {smaller} or raise it"
        raise NoDiskSpace(what, needed, limit)
    _must_be_free(what, needed, smaller)


def must_have_room_to_work() -> None:
    """Raises NoDiskSpace where a build or a measurement may have failed for want of it."""
    _must_be_free("the libraries that are built and loaded", WORKING_BYTES, "make room there")


def _must_be_free(what: str, needed: int, way_out: str) -> None:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        limit = f"{folder} has {free} free; {way_out}, or set TMPDIR to a larger disk"
        raise NoDiskSpace(what, needed, limit)


def _locked(parent: Path) -> tuple[int, Path]:
    """A new lock, held."""
    while True:
        lock, name = tempfile.mkstemp(prefix=PREFIX, suffix=LOCK, dir=parent)
        path = Path(name)
        with suppress(BlockingIOError):  # a sweep was faster
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                return lock, path
        os.close(lock)


def _sweep(parent: Path) -> None:
    """Remove the folders there that no living process of this user holds."""
    for path in parent.glob(f"{PREFIX}*{LOCK}"):
        with suppress(OSError):  # another's, held, or removed by a neighbour meanwhile
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_uid == os.geteuid():
                    _remove(path)
            finally:
                os.close(lock)


def _remove(path: Path) -> None:
    """The folder, then its lock, which is to be held; a folder that can't go keeps its lock, for
    the next sweep."""
    folder = path.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        path.unlink(missing_ok=True)
