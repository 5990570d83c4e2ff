"""Hands at work, some of which are killed or stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from db.sql.tables import UNENDED, jobs
from db.sql.transaction import reading
from tests.chaos.diary import diaries
from tests.chaos.hand import Habits, work

FORK = multiprocessing.get_context("fork")  # a tenth of a second less than a new interpreter


class Crew:
    """``count`` hands on the database of ``url``; whichever is killed has a successor at once.
    The diaries lie in ``folder``."""

    def __init__(self, url: str, folder: Path, habits: Habits, seed: int, count: int) -> None:
        self._url, self._folder, self._habits, self._seed = url, folder, habits, seed
        self._stop, self._born = folder / "stop", 0
        self._hands = [self._start() for _ in range(count)]

    def kill(self, which: int) -> None:
        self._hands[which].kill()
        self._hands[which].join()
        self._hands[which] = self._start()

    def pause(self, which: int) -> None:
        """Longer than its lease, so that another takes its job; then it goes on."""
        pid = self._hands[which].pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.2 * self._habits.lease_seconds)
        os.kill(pid, signal.SIGCONT)

    def finish(self, engine: Engine) -> None:
        """Wait until no job is left, or nothing has moved for three leases; then let the hands
        go."""
        wait_for_ends(engine, 3 * self._habits.lease_seconds + 30)
        self._stop.touch()
        for hand in self._hands:
            hand.join(timeout=30)

    def close(self) -> None:
        """End those that are still there."""
        for hand in self._hands:
            hand.kill()
            hand.join()

    def diaries(self) -> list[dict[str, Any]]:
        return diaries(self._folder)

    def _start(self) -> Any:
        self._born += 1
        diary, seed = self._folder / f"diary-{self._born}", self._seed * 10_000 + self._born
        hand = FORK.Process(
            target=work,
            args=(self._url, diary, self._stop, self._born, seed, self._habits),
            daemon=True,
        )
        hand.start()
        return hand


def wait_for_ends(engine: Engine, patience_seconds: float) -> None:
    """Until no job is open, or none has ended for so long."""
    moved, before = time.monotonic(), -1
    while True:
        with reading(engine) as connection:
            query = select(func.count()).select_from(jobs).where(UNENDED)
            open_ = connection.execute(query).scalar_one()
        if open_ == 0 or time.monotonic() - moved > patience_seconds:
            return
        if open_ != before:
            moved, before = time.monotonic(), open_
        time.sleep(0.2)
