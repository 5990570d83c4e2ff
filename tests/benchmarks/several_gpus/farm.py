"""One worker with the GPU of its own machine, with one RPC server, and with two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from db import best as bests
from db import trials
from db.engine import open_engine
from db.schema import migrate
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

TRIALS = 128
BAR_PACE, BAR_WINNER = 1.6, 0.03
HOWS = ("local", "1 server", "2 servers")
SHAPES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("depthwise_conv2d", {"B": 32, "C": 96, "H": 56, "W": 56, "K": 7}, "random"),
    ("conv1d", {"M": 1_000_000, "N": 2047, "mode": "valid"}, "random"),
    ("depthwise_conv2d", {"B": 32, "C": 96, "H": 56, "W": 56, "K": 7}, "xgb"),
)
"""``random`` with one seed proposes the same everywhere: what differs is the measuring."""


def measured(folder: Path) -> dict[str, Any]:
    """Trials a second and the winner of each shape, by how it was measured."""
    found: dict[str, list[dict[str, Any]]] = {how: _tuned(how, folder) for how in HOWS}
    rows = []
    for at, (operator, shape, search) in enumerate(SHAPES):
        by_how = {how: found[how][at] for how in HOWS}
        local = by_how["local"]["time_us"]
        rows.append(
            {
                "operator": operator,
                "workload": shape,
                "search": search,
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
    found = []
    with _options(how, folder) as options:
        for operator, shape, search in SHAPES:
            job = submit(engine, operator, shape, search=search, trials=TRIALS)
            command, environment = worker(database, 1, "--once", *options)
            log = folder / f"{how.replace(' ', '-')}.log"
            with running(command, log, environment) as process:
                process.wait(280)
            [done] = ended(engine, [job], 1)
            stored = trials.list_trials(engine, done.id, limit=TRIALS).items
            best = next(each for each in bests.lookup(engine, done.workload_key))
            found.append({"pace": pace(stored)[0], "time_us": best.time_us, "config": best.config})
    engine.dispose()
    return found


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
