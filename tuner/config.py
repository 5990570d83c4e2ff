"""The user's configuration and cache folders, and safe access to files in them.

The configuration folder holds this machine's signing key and the keys that the user trusts.
"""

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
    """Return the folder ``convtune`` inside the folder that an environment variable names.

    If the variable is unset or holds a relative path, the parent is ``otherwise``, a path below
    the user's home. Raises UnusableFile if this user has no home.
    """
    named = Path(os.environ.get(variable, ""))
    try:
        return (named if named.is_absolute() else Path.home() / otherwise) / "convtune"
    except RuntimeError as error:
        raise UnusableFile(
            f"~/{otherwise}/convtune", f"this user has no home folder; name one in {variable}"
        ) from error


def folder() -> Path:
    """Return convtune's configuration folder, by the XDG base directory specification.

    Raises UnusableFile if this user has no home.
    """
    return user_folder("XDG_CONFIG_HOME", ".config")


def is_writable(path: Path) -> bool:
    """Return whether this user may write the file or folder, or create it if it does not exist."""
    found = path.absolute()
    while not found.exists() and found != found.parent:
        found = found.parent
    return os.access(found, os.W_OK | (os.X_OK if found.is_dir() else 0))


@contextmanager
def locked(inside: Path) -> Iterator[None]:
    """Lock a folder against other processes while the context lasts.

    If the folder does not exist, it is created with access for its owner alone. Raises OSError.
    """
    inside.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (inside / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def why_untrusted(found: os.stat_result) -> str | None:
    """Return why users other than this one and root may have written a file, with the remedy.

    Return None if they can't have written it. The argument describes a file or a folder. A folder
    with the sticky bit is safe, because nobody can replace another user's file in it.
    """
    if found.st_uid not in (ROOT, os.geteuid()):
        return f"it belongs to user {found.st_uid}; if you trust what it says, make it yours: chown"
    mode = stat.S_IMODE(found.st_mode)
    if mode & OTHERS_MAY_WRITE and not mode & stat.S_ISVTX:
        return f"others may write it, its mode is {mode:04o}; if nobody did: chmod go-w"
    return None


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically, readable by its owner alone. Raises OSError."""
    handle, partial = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    finally:
        Path(partial).unlink(missing_ok=True)
