"""One worker that measures on its own GPU, on one RPC server, and on two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from db.contract.job import Job
from db.results import best as bests
from db.results import trials
from db.sql.engine import open_engine
from db.sql.schema import migrate
from tests.benchmarks.several_gpus.installation import (
    KEY,
    ended,
    running,
    servers,
    submit,
    tracker,
    worker,
)
from tests.benchmarks.tuned import pace

TRIALS = 96
BUILDERS = 28
"""More builders than a worker has by default, so that measuring takes longer than building."""
BAR_PACE, BAR_WINNER = 1.6, 0.03
HOWS = ("local", "1 server", "2 servers")
SEARCH = "random"
"""With the same seed it proposes the same configurations everywhere, so only measuring differs."""
SHAPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("depthwise_conv2d", {"B": 64, "C": 128, "H": 56, "W": 56, "K": 31}),
    ("conv1d", {"M": 8_000_000, "N": 4095, "mode": "valid"}),
)
"""Shapes whose trials take 0.1 s and more. Shorter trials would wait for the host's builders."""


def measured(folder: Path) -> dict[str, Any]:
    """Tune each shape in each of the ``HOWS``, and return the trials a second and the winners.

    A row's ``pace`` is two servers' trials a second over one server's. Its ``winner`` is the
    largest relative difference between a winner's time and the local one's.
    """
    found: dict[str, list[dict[str, Any]]] = {how: _tuned(how, folder) for how in HOWS}
    rows = []
    for at, (operator, shape) in enumerate(SHAPES):
        by_how = {how: found[how][at] for how in HOWS}
        local = by_how["local"]["time_us"]
        rows.append(
            {
                "operator": operator,
                "workload": shape,
                "how": by_how,
                "pace": by_how["2 servers"]["pace"] / by_how["1 server"]["pace"],
                "winner": max(abs(each["time_us"] / local - 1) for each in by_how.values()),
            }
        )
    return {"trials": TRIALS, "rows": rows, "bar_pace": BAR_PACE, "bar_winner": BAR_WINNER}


def _tuned(how: str, folder: Path) -> list[dict[str, Any]]:
    database = f"sqlite:///{folder / how.replace(' ', '-')}.db"
    engine = open_engine(database)
    migrate(engine)
    jobs = [submit(engine, *each, search=SEARCH, trials=TRIALS) for each in SHAPES]
    log = folder / f"{how.replace(' ', '-')}.log"
    with _options(how, folder) as options:
        command, environment = worker(database, BUILDERS, "--once", *options)
        with running(command, log, environment) as process:
            process.wait(400)
    found = [_found(engine, job) for job in ended(engine, jobs, 1)]
    engine.dispose()
    return found


def _found(engine: Engine, job: Job) -> dict[str, Any]:
    stored = trials.list_trials(engine, job.id, limit=TRIALS).items
    a_second, seconds = pace(stored)
    best = bests.lookup(engine, job.workload_key)[0]
    return {
        "pace": a_second,
        "seconds": seconds,
        "failed": sum(trial.status != "ok" for trial in stored),
        "time_us": best.time_us,
        "config": best.config,
    }


@contextmanager
def _options(how: str, folder: Path) -> Iterator[list[str]]:
    if how == "local":
        yield ["--gpus", "0"]
        return
    gpus = "0" if how == "1 server" else "0,1"
    with (
        tracker(folder / "tracker.log") as address,
        servers(address, gpus, folder / f"servers-{gpus}.log"),
    ):
        yield ["--rpc-tracker", address, "--rpc-key", KEY]
