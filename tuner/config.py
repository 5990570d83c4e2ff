"""Folders of the user's own, and that of what is kept: the key that signs, and the keys that are
trusted."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.errors import UnusableFile

LOCK = ".lock"
ROOT = 0
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def user_folder(variable: str, otherwise: str) -> Path:
    """``convtune`` in the folder that the variable names, or in ``otherwise`` of the user's home
    where it is unset or relative. Raises UnusableFile if this user has no home."""
    named = Path(os.environ.get(variable, ""))
    try:
        return (named if named.is_absolute() else Path.home() / otherwise) / "convtune"
    except RuntimeError as error:
        raise UnusableFile(
            f"~/{otherwise}/convtune", f"this user has no home folder; name one in {variable}"
        ) from error


def folder() -> Path:
    """By the XDG base directory specification, as the cache's."""
    return user_folder("XDG_CONFIG_HOME", ".config")


def can_be_written(path: Path) -> bool:
    """Whether this user may write that file or folder, or make it where it is not there."""
    found = path.absolute()
    while not found.exists() and found != found.parent:
        found = found.parent
    return os.access(found, os.W_OK | (os.X_OK if found.is_dir() else 0))


@contextmanager
def locked(inside: Path) -> Iterator[None]:
    """The folder for this process alone; it is made, for its owner alone, where it is not there.
    Raises OSError."""
    inside.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (inside / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def foreign(found: os.stat_result) -> str | None:
    """Why others than this user and root could have written what a file or folder says, with the
    way out; None if they could not. In a folder with the sticky bit nobody else's file can be
    replaced."""
    if found.st_uid not in (ROOT, os.geteuid()):
        return f"it belongs to user {found.st_uid}; if you trust what it says, make it yours: chown"
    mode = stat.S_IMODE(found.st_mode)
    if mode & OTHERS_MAY_WRITE and not mode & stat.S_ISVTX:
        return f"others may write it, its mode is {mode:04o}; if nobody did: chmod go-w"
    return None


def replace(path: Path, content: bytes) -> None:
    """Write a file, readable by its owner alone, that appears whole or not at all. Raises
    OSError."""
    handle, partial = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    finally:
        Path(partial).unlink(missing_ok=True)
