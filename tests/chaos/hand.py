"""Hands: processes that use the database as workers do, without compiling or measuring anything.

A hand claims jobs, stores trials and bests, ends jobs, and notes in its diary what the database
confirmed. It may be killed or stopped at any moment.
"""

from __future__ import annotations

import random
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from db import queue
from db.fleet import devices
from db.results import best, trials
from db.results.artifacts import NewArtifact
from db.sql.engine import BUSY_SECONDS, open_engine
from db.sql.errors import DatabaseUnavailable, LeaseLost, StorageError
from tests.chaos import wrong_clock
from tests.chaos.diary import Diary, clock

LONGEST_MS = 80.0
DEVICE = {
    "kind": "cpu",
    "name": "A hand",
    "arch": "none",
    "memory_bytes": 1,
    "driver": "",
    "limits": {},
}


@dataclass(frozen=True)
class Habits:
    """What all hands of a storm have in common.

    ``busy_seconds`` is how long they wait for SQLite's lock. ``padding`` is the number of extra
    bytes in each trial. ``clocks`` are errors of the clock, s, which the hands take in turn.
    """

    lease_seconds: float
    busy_seconds: float = BUSY_SECONDS
    padding: int = 0
    clocks: tuple[float, ...] = (0.0,)


def work(url: str, diary_path: Path, stop: Path, born: int, seed: int, habits: Habits) -> None:
    """Work on jobs until the file ``stop`` exists and no job waits.

    ``born`` is the hand's number. An exception that no worker should see is noted as a crash.
    """
    draw, diary = random.Random(seed), Diary(diary_path)  # noqa: S311  # a seed that repeats
    wrong = habits.clocks[born % len(habits.clocks)]
    if wrong:
        wrong_clock.shift(wrong)
    try:
        _Hand(_opened(url, diary, habits), f"hand {born}", draw, diary, habits).work(stop)
    except Exception:
        diary.write("crashed", traceback=traceback.format_exc())
        raise


def _opened(url: str, diary: Diary, habits: Habits) -> Engine:
    while True:
        try:
            return open_engine(url, habits.busy_seconds)
        except DatabaseUnavailable as error:
            diary.write("refused", reason=str(error))
            time.sleep(0.2)


class _Hand:
    def __init__(
        self, engine: Engine, name: str, draw: random.Random, diary: Diary, habits: Habits
    ) -> None:
        self._engine, self._name, self._draw = engine, name, draw
        self._diary, self._habits = diary, habits

    def work(self, stop: Path) -> None:
        while True:
            try:
                since = clock()
                job = queue.claim(self._engine, self._name, ["cpu"], self._habits.lease_seconds)
                if job is not None:
                    self._diary.of("claimed", job, since=since, worker=self._name)
                    self._to_its_end(job)
                elif stop.exists():
                    return
                else:
                    time.sleep(0.05)
            except LeaseLost as lost:
                self._diary.write("refused", reason=str(lost))
            except StorageError as error:
                self._diary.write("refused", reason=str(error))
                time.sleep(0.2)

    def _to_its_end(self, job: queue.Job) -> None:
        device = devices.upsert_device(self._engine, DEVICE)
        known = trials.list_trials(self._engine, job.id, limit=1000).items
        for knob in range(len(known), job.trials):
            time.sleep(self._draw.uniform(0, LONGEST_MS) * 1e-3)
            since = clock()
            if queue.heartbeat(self._engine, job.id, job.attempt, self._habits.lease_seconds):
                queue.finish(self._engine, job.id, job.attempt, "cancelled")
                self._diary.of("ended", job, state="cancelled")
                return
            self._diary.of("renewed", job, since=since)
            config = {
                "template": "none",
                "knob": knob,
                "by": job.attempt,
                "draw": self._draw.random(),
            }
            padding = self._draw.randbytes(self._habits.padding // 2).hex()
            trial = _trial(device.id, config, padding)
            trials.add(self._engine, job.id, job.attempt, [trial])
            self._diary.of("stored", job, config=config)
        files = [NewArtifact(job.id.encode(), "library", "application/octet-stream")]
        best.finish_with_bests(
            self._engine, job.id, job.attempt, [best.BestWithFiles(_best(job, device.id), files)]
        )
        self._diary.of("ended", job, state="succeeded")


def _trial(device_id: int, config: dict[str, Any], padding: str) -> trials.NewTrial:
    return trials.NewTrial(
        device_id=device_id,
        config=config,
        template="none",
        template_version=1,
        tvm_version="none",
        status="ok",
        time_us=1.0,
        timing={"warm": {"median_us": 1.0}, "padding": padding},
        max_error=0.0,
        error=None,
        seconds={"run": 0.0},
    )


def _best(job: queue.Job, device_id: int) -> best.NewBest:
    return best.NewBest(
        operator=job.operator,
        workload_key=job.workload_key,
        workload=job.workload,
        device_id=device_id,
        template="none",
        template_version=1,
        tvm_version="none",
        config={"template": "none", "by": job.attempt},
        time_us=1.0,
        timing={"warm": {"median_us": 1.0}},
        gflops=None,
        roofline={},
        max_error=0.0,
        baselines=[],
        trials_measured=job.trials,
        versions={},
    )
