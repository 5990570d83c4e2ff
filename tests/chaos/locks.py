"""A blow: another process holds SQLite's lock, as a backup, a migration or a shell may."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing

from tests.chaos.crew import FORK


def locking(path: str, longest_seconds: float) -> Callable[[random.Random], None]:
    """Return a blow that locks the file with BEGIN IMMEDIATE or EXCLUSIVE.

    It holds the lock for 0.1 to 1 times ``longest_seconds``.
    """

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
