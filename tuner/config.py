"""The folder of what a user keeps here: the key that signs, and the keys that are trusted."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"


def folder() -> Path:
    """``convtune`` in $XDG_CONFIG_HOME, or in ~/.config where that is unset or relative."""
    named = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".config") / "convtune"


@contextmanager
def locked(inside: Path) -> Iterator[None]:
    """The folder for this process alone; it is made, for its owner alone, where it is not there.
    Raises OSError."""
    inside.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (inside / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
