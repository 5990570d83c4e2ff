"""A crew: a fixed number of hands at work, which a storm kills and pauses."""

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

FORK = multiprocessing.get_context("fork")  # saves the 0.1 s that a new interpreter takes


class Crew:
    """``count`` hands at work on one database; a hand that is killed is replaced at once.

    The diaries lie in ``folder``.
    """

    def __init__(self, url: str, folder: Path, habits: Habits, seed: int, count: int) -> None:
        self._url, self._folder, self._habits, self._seed = url, folder, habits, seed
        self._stop, self._born = folder / "stop", 0
        self._hands = [self._start() for _ in range(count)]

    def kill(self, which: int) -> None:
        self._hands[which].kill()
        self._hands[which].join()
        self._hands[which] = self._start()

    def pause(self, which: int) -> None:
        """Stop a hand for longer than its lease, so that another takes its job; then resume it."""
        pid = self._hands[which].pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.2 * self._habits.lease_seconds)
        os.kill(pid, signal.SIGCONT)

    def finish(self, engine: Engine) -> None:
        """Wait until all jobs have ended, then let the hands end.

        Give up if no job has ended for three leases and 30 s. A hand ends once it finds no job.
        """
        wait_for_ends(engine, 3 * self._habits.lease_seconds + 30)
        self._stop.touch()
        for hand in self._hands:
            hand.join(timeout=30)

    def close(self) -> None:
        """Kill the hands that still run."""
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
    """Wait until no job is open, or until none has ended for ``patience_seconds``."""
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
