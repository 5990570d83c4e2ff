"""A worker without kernels: it claims, stores trials and bests, and ends jobs as a worker does, and
writes down what the database confirmed. It is killed and stopped at any moment."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

from db import best, devices, queue, trials
from db.artifacts import NewArtifact
from db.engine import open_engine
from db.errors import DatabaseUnavailable, LeaseLost, StorageError

LONGEST_MS = 80.0
DEVICE = {
    "kind": "cpu",
    "name": "A hand",
    "arch": "none",
    "memory_bytes": 1,
    "driver": "",
    "limits": {},
}


class Diary:
    """Lines that are on their way to the disk before the next thing is done: what a killed process
    wrote is there."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, event: str, job: queue.Job, **more: Any) -> None:
        line = {"event": event, "job": job.id, "attempt": job.attempt, "at": time.time()} | more
        os.write(self._file, (json.dumps(line) + "\n").encode())


def work(
    url: str, diary_path: Path, stop: Path, name: str, seed: int, lease_seconds: float
) -> None:
    """Until the file ``stop`` is there and no job waits."""
    draw, diary = random.Random(seed), Diary(diary_path)  # noqa: S311  # a seed that repeats
    engine = open_engine(url)
    while True:
        try:
            job = queue.claim(engine, name, ["cpu"], lease_seconds)
            if job is not None:
                diary.write("claimed", job, worker=name)
                _to_its_end(engine, job, draw, diary, lease_seconds)
            elif stop.exists():
                return
            else:
                time.sleep(0.05)
        except LeaseLost:
            continue
        except (DatabaseUnavailable, StorageError):
            time.sleep(0.2)


def _to_its_end(
    engine: Any, job: queue.Job, draw: random.Random, diary: Diary, lease_seconds: float
) -> None:
    device = devices.upsert_device(engine, DEVICE)
    known = trials.list_trials(engine, job.id, limit=1000).items
    for knob in range(len(known), job.trials_requested):
        time.sleep(draw.uniform(0, LONGEST_MS) * 1e-3)
        queue.heartbeat(engine, job.id, job.attempt, lease_seconds)
        config = {"template": "none", "knob": knob, "by": job.attempt, "draw": draw.random()}
        try:
            trials.add(engine, job.id, job.attempt, [_trial(device.id, config)])
        except LeaseLost:
            diary.write("refused", job)
            raise
        diary.write("stored", job, config=config)
    try:
        files = [NewArtifact(job.id.encode(), "library", "application/octet-stream")]
        best.finish_with_best(engine, job.id, job.attempt, _best(job, device.id), files)
    except LeaseLost:
        diary.write("refused", job)
        raise
    diary.write("ended", job)


def _trial(device_id: int, config: dict[str, Any]) -> trials.NewTrial:
    return trials.NewTrial(
        device_id=device_id,
        config=config,
        template="none",
        template_version=1,
        tvm_version="none",
        status="ok",
        time_us=1.0,
        timing={"warm": {"median_us": 1.0}},
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
        trials_measured=job.trials_requested,
        versions={},
    )
