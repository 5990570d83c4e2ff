"""Benchmark of the service on a large database, beside a route that does nothing: its latency, its
rate and the page of a large job.

python -m tests.benchmarks.service --write docs/benchmarks/service
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from sqlalchemy import Engine, insert

from db.sql import tables
from db.sql.engine import open_engine
from db.sql.schema import migrate
from db.sql.transaction import writing
from templates.conv1d.workload import Conv1dWorkload
from tuner.cli.demo import free_port
from tuner.device import cpu_facts

BESTS = 10_000
TRIALS_OF_FIRST = 10_000
TRIALS = 1_000_000
N = 32
FIRST_M = 4096
ROUNDS, REQUESTS = 6, 500
THREADS = 4
PAGES = 10
START_SECONDS = 30.0

bare = FastAPI()


@bare.get("/bare")
def nothing() -> dict[str, str]:
    """Return a constant, to show what a route costs that does nothing."""
    return {"state": "ok"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/large.db"
        begun = time.monotonic()
        _fill(url)
        print(f"filled in {time.monotonic() - begun:.0f} s", flush=True)
        ports = {"service": free_port(), "bare": free_port()}
        log = Path(folder) / "log"
        with (
            _serving("api.main:app", ports["service"], url, log),
            _serving(f"{__spec__.name}:bare", ports["bare"], url, log),
        ):
            _until_up(ports["service"], "/readyz")
            _until_up(ports["bare"], "/bare")
            result = _measured(ports)
    device = cpu_facts.device()
    result = {
        "command": "python -m tests.benchmarks.service",
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{device.name} ({device.arch}), {device.limits.units} threads",
        "trials": TRIALS,
        "bests": BESTS,
    } | result
    text = _markdown(result)
    print(text)
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(text)


def _measured(ports: dict[str, int]) -> dict[str, Any]:
    draw = np.random.default_rng(0)

    def best() -> str:
        return f"/best/conv1d?M={FIRST_M + int(draw.integers(BESTS))}&N={N}"

    seconds: dict[str, list[float]] = {"service": [], "bare": []}
    rates: dict[str, list[float]] = {"service": [], "bare": []}
    paths = {"service": best, "bare": lambda: "/bare"}
    for _ in range(ROUNDS):
        for name, path in paths.items():
            seconds[name] += _requests(ports[name], [path() for _ in range(REQUESTS)])
            rates[name].append(_rate(ports[name], path))
    pages = _requests(ports["service"], [f"/ui/jobs/{_job_id(0)}"] * PAGES)
    curves = _requests(ports["service"], [f"/ui/jobs/{_job_id(0)}/curve"] * PAGES)
    latency = {
        name: {
            "p50_ms": 1e3 * float(np.percentile(taken, 50)),
            "p99_ms": 1e3 * float(np.percentile(taken, 99)),
        }
        for name, taken in seconds.items()
    }
    rate = {name: float(np.median(found)) for name, found in rates.items()}
    return {
        "latency": latency,
        "requests_per_second": rate,
        "of_bare": rate["service"] / rate["bare"],
        "job_page_ms": 1e3 * max(pages),
        "job_curve_ms": 1e3 * max(curves),
    }


def _requests(port: int, paths: list[str]) -> list[float]:
    """Return the seconds of each request, made one after the other on one connection.

    Exit if a request is not answered with 200.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    taken = []
    for path in paths:
        start = time.perf_counter()
        connection.request("GET", path, headers={"Accept": "*/*"})
        answer = connection.getresponse()
        body = answer.read()
        taken.append(time.perf_counter() - start)
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {body[:300]!r}")
    connection.close()
    return taken


def _rate(port: int, path: Callable[[], str]) -> float:
    """Return the requests a second of ``THREADS`` connections at once."""
    shares = [[path() for _ in range(REQUESTS // THREADS)] for _ in range(THREADS)]
    threads = [threading.Thread(target=_requests, args=(port, share)) for share in shares]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(map(len, shares)) / (time.perf_counter() - start)


@contextmanager
def _serving(app: str, port: int, url: str, log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--log-level", "warning"]
    with log.open("ab") as said:
        process = subprocess.Popen(
            command,
            env=os.environ | {"TUNER_DATABASE_URL": url},
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def _until_up(port: int, path: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            _requests(port, [path])
            return
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _fill(url: str) -> None:
    """Make a database like that after many jobs: one of 10,000 trials, the others of about 99."""
    engine = open_engine(url)
    migrate(engine)
    now = time.time()
    device = cpu_facts.device()
    shapes = [Conv1dWorkload(M=FIRST_M + n, N=N) for n in range(BESTS)]
    files = {kind: f"{n:064x}" for n, kind in enumerate(("library", "source", "manifest"))}
    config = {"template": "direct", "threads": 128, "outputs_per_thread": 4, "stores": "own"}
    timing = {"warm": {"median_us": 5.0, "p10_us": 4.9, "p90_us": 5.2, "samples": 10}}
    _insert(
        engine,
        tables.devices,
        [device.fingerprint() | {"id": 1, "identity": "0" * 64}],
    )
    _insert(
        engine,
        tables.artifacts,
        [
            {
                "sha256": sha256,
                "size": 4,
                "kind": kind,
                "media_type": "text/plain" if kind == "source" else "application/json",
                "content": b"null",
                "created_at": now,
            }
            for kind, sha256 in files.items()
        ],
    )
    _insert(
        engine,
        tables.workloads,
        [
            {"id": n + 1, "key": w.key, "operator": "conv1d", "workload": w.model_dump()}
            for n, w in enumerate(shapes)
        ],
    )
    counts = [TRIALS_OF_FIRST] + [(TRIALS - TRIALS_OF_FIRST) // (BESTS - 1)] * (BESTS - 1)
    counts[-1] += TRIALS - sum(counts)
    _insert(
        engine,
        tables.jobs,
        [_job(n, count, now) for n, count in enumerate(counts)],
    )
    for start in range(0, BESTS, 200):
        _insert(
            engine,
            tables.trials,
            [
                _trial(n, number, config, timing, now)
                for n in range(start, min(start + 200, BESTS))
                for number in range(1, counts[n] + 1)
            ],
        )
    _insert(
        engine,
        tables.bests,
        [_best(n, counts[n], config, timing, now) for n in range(BESTS)],
    )
    _insert(
        engine,
        tables.best_artifacts,
        [
            {"best_id": n + 1, "kind": kind, "sha256": sha256}
            for n in range(BESTS)
            for kind, sha256 in files.items()
        ],
    )
    engine.dispose()


def _insert(engine: Engine, table: Any, rows: list[dict[str, Any]]) -> None:
    with writing(engine) as connection:
        connection.execute(insert(table), rows)


def _job_id(n: int) -> str:
    return f"{n:032x}"


def _job(n: int, count: int, now: float) -> dict[str, Any]:
    return {
        "seq": n + 1,
        "id": _job_id(n),
        "order_key": f"{n:064x}",
        "workload_id": n + 1,
        "target": "cpu",
        "search": "xgb",
        "on_existing": "reuse",
        "trials_requested": count,
        "state": "succeeded",
        "cancel_requested": False,
        "attempt": 1,
        "released": 0,
        "trials_measured": count,
        "trials_ok": count,
        "trials_failed": 0,
        "device_id": 1,
        "best": {"config": {"template": "direct"}, "time_us": 5.0, "gflops": 1.0},
        "created_at": now,
        "started_at": now,
        "finished_at": now + count,
    }


def _trial(
    n: int, number: int, config: dict[str, Any], timing: dict[str, Any], now: float
) -> dict[str, Any]:
    return {
        "job_seq": n + 1,
        "number": number,
        "workload_id": n + 1,
        "device_id": 1,
        "tvm_version": "0.27.0",
        "template": "direct",
        "template_version": 1,
        "config_key": f"{number:032x}",
        "config": config | {"threads": 32 * (number % 16 + 1)},
        "status": "ok",
        "time_us": 5.0 + 1000 / number + number % 7,
        "timing": timing,
        "max_error": 1e-7,
        "error": None,
        "seconds": {"schedule": 0.05, "build": 0.3, "check": 0.01, "run": 0.02},
        "created_at": now + number,
    }


def _best(
    n: int, count: int, config: dict[str, Any], timing: dict[str, Any], now: float
) -> dict[str, Any]:
    return {
        "id": n + 1,
        "workload_id": n + 1,
        "device_id": 1,
        "job_seq": n + 1,
        "template": "direct",
        "template_version": 1,
        "tvm_version": "0.27.0",
        "config": config,
        "time_us": 5.0,
        "timing": timing | {"empty_us": 0.01, "clocks": {}},
        "gflops": 1.0,
        "roofline": {"bound": "memory", "floor_us": 1.0, "fraction": 0.2},
        "max_error": 1e-7,
        "baselines": [
            {
                "name": f"peer {rank}",
                "time_us": 10.0 + rank,
                "speedup": 2.0,
                "max_error": 1e-7,
                "error": None,
            }
            for rank in range(8)
        ],
        "trials_measured": count,
        "versions": {"apache-tvm": "0.27.0"},
        "tuned_at": now,
    }


def _markdown(result: dict[str, Any]) -> str:
    latency, rate = result["latency"], result["requests_per_second"]
    return "\n".join(
        [
            "# The service on a large database",
            "",
            f"{result['device']}, {result['date']}. SQLite with {result['trials']:,} trials and "
            f"{result['bests']:,} bests; service, the bare FastAPI route and what asks them share "
            "the machine and take turns.",
            "",
            f"    {result['command']}",
            "",
            "| what | p50, ms | p99, ms | requests a second |",
            "|---|---|---|---|",
            *(
                f"| {what} | {latency[name]['p50_ms']:.2f} | {latency[name]['p99_ms']:.2f} "
                f"| {rate[name]:.0f} |"
                for name, what in (("service", "`GET /best`, a random one"), ("bare", "bare route"))
            ),
            "",
            f"That is {result['of_bare']:.2f} of the bare route's rate. Latency is of one "
            f"connection, the rate of {THREADS} at once.",
            "",
            f"The page of a job with {TRIALS_OF_FIRST:,} trials takes {result['job_page_ms']:.0f} "
            f"ms and its curve {result['job_curve_ms']:.0f} ms, the slowest of {PAGES}.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
