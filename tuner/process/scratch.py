"""A folder for the temporary files of a process and of those it starts.

After a kill -9 nobody cleans up, and one job's inputs and references may be hundreds of megabytes.
So each process that starts removes the folders of processes that are gone.

Beside each folder is its lock, a file of the same name with a suffix. It is made before the folder
and removed after it, so that no folder is without a lock. If the lock is held, its process lives:
the kernel releases the lock when the process ends. That holds across containers that share the
disk, in which process ids mean nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from tuner.errors import NoDiskSpace, UnusableFile

PREFIX = "convtune-"
LOCK = ".lock"
WORKING_BYTES = 4 << 20
"""Disk space for the libraries that are built at once, and the files that they are linked from."""


_used: ContextVar[Path | None] = ContextVar("convtune_scratch", default=None)


class Scratch:
    """A folder for temporary files, ``folder``, and its lock. It is removed by its context."""

    def __init__(self, lock: int, path: Path) -> None:
        """Take over a lock that this process holds: its descriptor and its path."""
        self.folder = path.with_suffix("")
        self._lock, self._lock_path = lock, path

    def ensure(self) -> None:
        """Make the folder, and its lock, if they are missing.

        A program that cleans temporary folders by the age of their files, such as systemd-tmpfiles,
        may have removed them while nothing used them. Raises UnusableFile if something else took
        the folder's place, OSError if the folder can't be made.
        """
        while os.fstat(self._lock).st_nlink == 0:
            lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            if _holds(lock, self._lock_path):
                os.close(self._lock)
                self._lock = lock
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError:
            found = self.folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                why = "is not the folder that was made for temporary files: remove it"
                raise UnusableFile(self.folder, why) from None

    def close(self, *, remove: bool) -> None:
        """Close the lock; ``remove`` it and the folder first, unless they are a parent's."""
        if remove:
            _remove(self._lock_path)
        os.close(self._lock)


@contextmanager
def scratch() -> Iterator[Scratch]:
    """Yield a new folder, in which Python, TVM and the compiler put their temporary files. It is
    removed at the end. All threads are affected, so this is not for a user's program."""
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    with scratch_folder() as made:
        os.environ["TMPDIR"] = tempfile.tempdir = str(made.folder)
        try:
            yield made
        finally:
            environment, tempfile.tempdir = before
            if environment is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = environment


@contextmanager
def scratch_folder() -> Iterator[Scratch]:
    """Yield a new folder, which is removed at the end. Nothing uses it by itself: see
    :func:`used_as_scratch`."""
    parent = Path(tempfile.gettempdir())
    _sweep(parent)
    made = Scratch(*_locked(parent))
    owner = os.getpid()
    try:
        made.ensure()
        yield made
    finally:
        made.close(remove=os.getpid() == owner)  # a fork must not remove it


@contextmanager
def used_as_scratch(folder: Path) -> Iterator[None]:
    """Let the folder be this thread's :func:`temporary_folder` in the block. Python's temporary
    folder stays, because a user's program may use it, also in other threads."""
    before = _used.set(folder)
    try:
        yield
    finally:
        _used.reset(before)


def temporary_folder() -> Path:
    """Return the folder for a job's temporary files: this thread's, or else Python's."""
    return _used.get() or Path(tempfile.gettempdir())


def must_have_room(needed: int, allowed: int) -> None:
    """Raise NoDiskSpace if a job's cases take more bytes than are ``allowed``, or than are free.
    A single order must not fill the folder that all orders share."""
    what, smaller = (
        "the inputs and references that candidates are checked on",
        "order a smaller shape",
    )
    if needed > allowed:
        limit = f"TUNER_SCRATCH_BYTES allows {allowed}; {smaller} or raise it"
        raise NoDiskSpace(what, needed, limit)
    _must_be_free(what, needed, smaller)


def must_be_usable() -> None:
    """Raise UnusableFile or NoDiskSpace if the temporary folder may have made a build or
    measurement fail: no library can be loaded from it, or less than WORKING_BYTES is free."""
    must_hold_libraries(temporary_folder())
    _must_be_free("the libraries that are built and loaded", WORKING_BYTES, "make room there")


def must_hold_libraries(folder: Path) -> None:
    """Raise UnusableFile if no library that is built in the temporary folder can be loaded."""
    way_out = "name another folder in TMPDIR"
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(folder).decode(errors="backslashreplace")
        raise UnusableFile(shown, f"the path is not valid UTF-8; {way_out}") from None
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise UnusableFile(folder, f"no library can be loaded from a noexec mount; {way_out}")


def _must_be_free(what: str, needed: int, way_out: str) -> None:
    folder = temporary_folder()
    free = shutil.disk_usage(folder).free
    if needed > free:
        limit = f"{folder} has {free} free; {way_out}, or set TMPDIR to a larger disk"
        raise NoDiskSpace(what, needed, limit)


def _locked(parent: Path) -> tuple[int, Path]:
    """Return a new lock that this process holds: its descriptor and its path."""
    while True:
        lock, name = tempfile.mkstemp(prefix=PREFIX, suffix=LOCK, dir=parent)
        if _holds(lock, Path(name)):
            return lock, Path(name)


def _holds(lock: int, path: Path) -> bool:
    """Lock the new file and return True; or close it and return False if a sweep came first."""
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():
            return True
    os.close(lock)
    return False


def _sweep(parent: Path) -> None:
    """Remove the folders there that no living process of this user holds."""
    for path in parent.glob(f"{PREFIX}*{LOCK}"):
        with suppress(OSError):  # another user's, or held, or already removed by another process
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_uid == os.geteuid():
                    _remove(path)
            finally:
                os.close(lock)


def _remove(path: Path) -> None:
    """Remove a lock's folder, then the lock, which this process must hold. If the folder can't be
    removed, the lock stays for the next sweep."""
    folder = path.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        path.unlink(missing_ok=True)
