"""Benchmark of claims by eight workers at once, on SQLite and PostgreSQL: their rate and latency.

python -m tests.benchmarks.claims --write docs/benchmarks/claims
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine, func, insert, select, text

from db import queue
from db.sql import tables
from db.sql.engine import open_engine, reading, writing
from db.sql.schema import migrate
from tests.own_postgres import own_server
from tuner.device import cpu_facts

WORKERS = 8
ROUNDS = 3
LONGEST_MS = 80.0
QUEUED = {"at_once": 4000, "with_work": 2000}
"""Jobs of a round, by the time for which a worker holds a job: no time, or 0 to ``LONGEST_MS``."""
BARS = {"sqlite": 100, "postgresql": 1000}
"""The least sufficient number of claims a second."""
BAR_P99_MS = 50.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    engines = {}
    for name, databases in (("sqlite", sqlite_url), ("postgresql", postgresql_url)):
        with databases() as url:
            engines[name] = _measured(name, url)
    device = cpu_facts.device()
    result = {
        "command": "python -m tests.benchmarks.claims",
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{device.name} ({device.arch}), {device.limits.units} threads",
        "python": sys.version.split()[0],
        "sqlalchemy": version("sqlalchemy"),
        "psycopg": version("psycopg"),
        "workers": WORKERS,
        "rounds": ROUNDS,
        "engines": engines,
    }
    page = _markdown(result)
    print(page)
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(page)


@contextmanager
def sqlite_url() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="convtune-claims-") as folder:
        yield f"sqlite:///{folder}/claims.db"


@contextmanager
def postgresql_url() -> Iterator[str]:
    """Yield the URL of a private server with its default settings: each commit waits for the
    disk."""
    with own_server() as server:
        yield server.url


def _measured(name: str, url: str) -> dict[str, Any]:
    engine = open_engine(url)
    migrate(engine)
    asked = "sqlite_version()" if name == "sqlite" else "current_setting('server_version')"
    with reading(engine) as connection:
        found = str(connection.execute(text(f"SELECT {asked}")).scalar_one())
    rounds = {
        kind: [
            _round(engine, url, count, LONGEST_MS if kind == "with_work" else 0.0)
            for _ in range(ROUNDS)
        ]
        for kind, count in QUEUED.items()
    }
    engine.dispose()
    return {
        "version": found.split(maxsplit=1)[0],
        "claims_per_second": max(each["claims_per_second"] for each in rounds["at_once"]),
        "p99_ms": min(each["p99_ms"] for each in rounds["with_work"]),
        "rounds": rounds,
    }


def _round(engine: Engine, url: str, count: int, longest_ms: float) -> dict[str, Any]:
    last = _fill(engine, count)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(WORKERS), context.Queue()
    load = os.getloadavg()[0]
    workers = [
        context.Process(target=_work, args=(url, f"worker {n}", longest_ms, barrier, answers))
        for n in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    claims = [claim for _ in workers for claim in answers.get(timeout=600)]
    for worker in workers:
        worker.join()
    _all_were_claimed_once(engine, last, count)
    begun, ended = zip(*claims, strict=True)
    seconds = np.subtract(ended, begun)
    return {
        "claims": count,
        "claims_per_second": count / (max(ended) - min(begun)),
        "p50_ms": 1e3 * float(np.percentile(seconds, 50)),
        "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
        "longest_ms": 1e3 * float(max(seconds)),
        "load_before": load,
    }


def _work(url: str, name: str, longest_ms: float, barrier: Barrier, answers: Any) -> None:
    """Claim and end jobs until none is queued, and put the claims' times into ``answers``.

    A claim is (begin, end) in seconds of ``time.monotonic``, which is the same in all processes.
    """
    draw = random.Random(name)  # noqa: S311
    engine = open_engine(url)
    claims = []
    barrier.wait()
    while True:
        begun = time.monotonic()
        job = queue.claim(engine, name, ["cpu"])
        if job is None:
            break
        claims.append((begun, time.monotonic()))
        if longest_ms:
            time.sleep(draw.uniform(0.0, longest_ms) * 1e-3)
        queue.finish(engine, job.id, job.attempt, "succeeded")
    engine.dispose()
    answers.put(claims)


def _fill(engine: Engine, count: int) -> int:
    """Queue ``count`` jobs and return the number of the last job before them, 0 if there is
    none."""
    with writing(engine) as connection:
        newest = select(func.coalesce(func.max(tables.jobs.c.seq), 0))
        last = int(connection.execute(newest).scalar_one())
        if not last:
            workload = {"id": 1, "key": "{}", "operator": "conv1d", "workload": {"M": 64, "N": 3}}
            connection.execute(insert(tables.workloads), [workload])
        connection.execute(insert(tables.jobs), [_job(last + n) for n in range(1, count + 1)])
    return last


def _job(n: int) -> dict[str, Any]:
    return {
        "id": f"{n:032x}",
        "order_key": f"{n:064x}",
        "workload_id": 1,
        "target": "auto",
        "search": "xgb",
        "on_existing": "retune",
        "trials_requested": 64,
        "state": "queued",
        "cancel_requested": False,
        "attempt": 0,
        "released": 0,
        "trials_measured": 0,
        "trials_ok": 0,
        "trials_failed": 0,
        "created_at": time.time(),
    }


def _all_were_claimed_once(engine: Engine, last: int, count: int) -> None:
    done = (tables.jobs.c.state == "succeeded") & (tables.jobs.c.attempt == 1)
    query = select(func.count()).where(tables.jobs.c.seq > last, done)
    with reading(engine) as connection:
        committed = connection.execute(query).scalar_one()
    if committed != count:
        sys.exit(f"{count} jobs were queued, but {committed} were claimed once and ended")


def _markdown(result: dict[str, Any]) -> str:
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    kinds = {"at_once": "0", "with_work": f"0 to {LONGEST_MS:.0f}"}
    return "\n".join(
        [
            "# Claims",
            "",
            f"{result['device']}, {result['date']}. Python {result['python']}, "
            f"SQLAlchemy {result['sqlalchemy']}, psycopg {result['psycopg']}, "
            + ", ".join(f"{names[key]} {each['version']}" for key, each in _engines(result))
            + ".",
            "",
            f"    {result['command']}",
            "",
            f"{WORKERS} processes, each with its own connection, claim a job, hold it for as long "
            "as the column says, end it, and claim the next until none waits. The database, which "
            "waits for the disk at each commit, shares the machine with them. Afterwards every job "
            "must have been claimed once and have ended.",
            "",
            "| engine | job, ms | claims | claims a second | p50, ms | p99, ms | longest, ms |"
            " load before |",
            "|---|---|---|---|---|---|---|---|",
            *(
                f"| {names[key]} | {kinds[kind]} | {each['claims']} "
                f"| {each['claims_per_second']:.0f} | {each['p50_ms']:.2f} | {each['p99_ms']:.2f} "
                f"| {each['longest_ms']:.1f} | {each['load_before']:.1f} |"
                for key, engine in _engines(result)
                for kind in QUEUED
                for each in engine["rounds"][kind]
            ),
            "",
            f"Each row is a round, and of {ROUNDS} the quietest counts:",
            "",
            "| engine | claims a second, jobs of 0 ms | wanted | p99 of a claim, ms | wanted |",
            "|---|---|---|---|---|",
            *(
                f"| {names[key]} | {each['claims_per_second']:.0f} | at least {BARS[key]} "
                f"| {each['p99_ms']:.2f} | at most {BAR_P99_MS:.0f} |"
                for key, each in _engines(result)
            ),
            "",
        ]
    )


def _engines(result: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    engines: dict[str, dict[str, Any]] = result["engines"]
    return engines.items()


if __name__ == "__main__":
    main()
