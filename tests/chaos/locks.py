"""Another process that holds SQLite's write lock: a backup, a migration, somebody's shell."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

from tests.chaos.crew import FORK


def locking(path: str, longest_seconds: float) -> Callable[[random.Random], None]:
    """A blow by which the file is locked, one way or the other, up to so long."""

    def lock(draw: random.Random) -> None:
        how = draw.choice(["IMMEDIATE", "EXCLUSIVE"])
        seconds = draw.uniform(0.1, 1.0) * longest_seconds
        holder = FORK.Process(target=_hold, args=(path, how, seconds))
        holder.start()
        holder.join()
        assert holder.exitcode == 0

    return lock


def _hold(path: str, how: str, seconds: float) -> None:
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.execute(f"BEGIN {how}")
        time.sleep(seconds)
        connection.execute("ROLLBACK")
