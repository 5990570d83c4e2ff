"""Eight jobs for two workers on two GPUs, and for one on one, over one PostgreSQL."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from db import workers
from db.engine import open_engine
from db.schema import migrate
from tests.benchmarks.several_gpus.installation import ended, running, submit, until, worker
from tests.own_postgres import own_server

OPERATOR = "depthwise_conv2d"
TRIALS = 64
BAR = 0.6
BUILDERS = 14
"""For each worker, whether it has the machine for itself or not."""
SETTLED_SECONDS = 10.0
"""After their start workers warm their builders."""
JOBS = tuple(
    {"B": 16, "C": channels, "H": size, "W": size, "K": taps}
    for taps in (5, 7)
    for channels, size in ((96, 56), (192, 28), (384, 14), (768, 7))
)
"""Layers of a network; nothing of theirs is measured on the CPU, which both workers share."""


def measured(folder: Path) -> dict[str, Any]:
    """Seconds from the order to the end of the last job. Two workers come first: what the machine
    has read from its disk by then is to the good of the one."""
    seconds = {count: _seconds(count, folder) for count in (2, 1)}
    ratio = seconds[2] / seconds[1]
    return {
        "jobs": len(JOBS), "trials": TRIALS, "seconds": seconds, "ratio": ratio, "bar": BAR,
    }  # fmt: skip


def _seconds(count: int, folder: Path) -> float:
    gpus = ",".join(str(n) for n in range(count))
    with own_server() as server:
        engine = open_engine(server.url)
        migrate(engine)
        command, environment = worker(server.url, BUILDERS * count, "--gpus", gpus)
        with running(command, folder / f"workers-{count}.log", environment):
            until(lambda: len(workers.list_workers(engine)) == count, 120)
            time.sleep(SETTLED_SECONDS)
            jobs = [submit(engine, OPERATOR, shape, trials=TRIALS) for shape in JOBS]
            done = ended(engine, jobs, 600)
        engine.dispose()
    ends = [job.finished_at for job in done if job.finished_at is not None]
    return (max(ends) - min(job.created_at for job in done)).total_seconds()
