"""Eight jobs in one PostgreSQL for two workers on two GPUs, and for one worker on one GPU."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from db.fleet import workers
from db.sql.engine import open_engine
from db.sql.schema import migrate
from tests.benchmarks.several_gpus.installation import ended, running, submit, until, worker
from tests.own_postgres import own_server

TRIALS = 64
BAR = 0.6
BUILDERS = 14
"""The builders of each worker, even if it is the only one on the machine."""
SETTLED_SECONDS = 10.0
"""Seconds of waiting after the workers' start, in which they warm their builders."""
Shape = tuple[str, dict[str, Any]]
LAYERS: tuple[Shape, ...] = tuple(
    ("depthwise_conv2d", {"B": 16, "C": channels, "H": size, "W": size, "K": taps})
    for taps in (5, 7)
    for channels, size in ((96, 56), (192, 28), (384, 14), (768, 7))
)
MIXED: tuple[Shape, ...] = (
    ("depthwise_conv2d", {"B": 32, "C": 96, "H": 56, "W": 56, "K": 7}),
    ("conv1d", {"M": 500_000, "N": 1023, "mode": "valid"}),
    ("depthwise_conv2d", {"B": 32, "C": 256, "H": 28, "W": 28, "K": 5}),
    ("conv1d", {"M": 1_500_000, "N": 127, "mode": "same"}),
    ("depthwise_conv2d", {"B": 16, "C": 512, "H": 14, "W": 14, "K": 13}),
    ("conv1d", {"M": 200_000, "N": 255}),
    ("depthwise_conv2d", {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7}),
    ("conv1d", {"M": 16_384, "N": 32}),
)
"""The last round of conv1d also times peers on the CPU, which both workers share."""


def measured(load: Sequence[Shape], folder: Path) -> dict[str, Any]:
    """Return the seconds from the first order to the end of the last job, by number of workers.

    Two workers are measured first. The single worker then finds the machine's disk cache filled, so
    the order does not favour two workers.
    """
    seconds = {str(count): _seconds(count, load, folder) for count in (2, 1)}
    return {
        "jobs": len(load), "trials": TRIALS, "seconds": seconds,
        "ratio": seconds["2"] / seconds["1"], "bar": BAR,
    }  # fmt: skip


def _seconds(count: int, load: Sequence[Shape], folder: Path) -> float:
    gpus = ",".join(str(n) for n in range(count))
    with own_server() as server:
        engine = open_engine(server.url)
        migrate(engine)
        command, environment = worker(server.url, BUILDERS * count, "--gpus", gpus)
        with running(command, folder / f"workers-{count}.log", environment):
            until(lambda: len(workers.list_workers(engine)) == count, 120)
            time.sleep(SETTLED_SECONDS)
            jobs = [submit(engine, *shape, trials=TRIALS) for shape in load]
            done = ended(engine, jobs, 600)
        engine.dispose()
    ends = [job.finished_at for job in done if job.finished_at is not None]
    return (max(ends) - min(job.created_at for job in done)).total_seconds()
