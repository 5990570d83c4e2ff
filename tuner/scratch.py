"""A folder for the temporary files of a process and of those it starts.

A kill -9 lets nobody clean up, and one job's inputs and references may be hundreds of megabytes:
what lies there of processes that are gone is removed by the next that starts.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "convtune-"
LOCK = "in-use"
YOUNG_SECONDS = 60.0
"""What is younger may belong to a process that has yet to lock it."""


@contextmanager
def scratch() -> Iterator[Path]:
    """The folder, in which Python, TVM and the compiler put their temporary files until it is
    removed at the end."""
    _sweep(Path(tempfile.gettempdir()))
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name, (Path(name) / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.environ["TMPDIR"] = tempfile.tempdir = name
        try:
            yield Path(name)
        finally:
            environment, tempfile.tempdir = before
            if environment is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = environment


def _sweep(parent: Path) -> None:
    """Remove the folders there that no living process holds. The lock tells, not a process id:
    containers that share a folder do not share those."""
    for path in parent.glob(f"{PREFIX}*/{LOCK}"):
        try:
            with path.open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - path.stat().st_mtime > YOUNG_SECONDS:
                    shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:
            continue  # another's, or held
