"""Benchmark of the bytes that a stored trial takes, on SQLite and on PostgreSQL.

python -m tests.benchmarks.growth --write docs/benchmarks/growth
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

import templates
from db import queue
from db.fleet import devices
from db.results import trials
from db.sql.engine import open_engine, reading
from db.sql.schema import migrate
from db.upkeep.space import reclaim, size
from templates.conv1d.workload import Conv1dWorkload
from tests.benchmarks.claims import postgresql_url, sqlite_url
from tests.templates.devices import H200
from tuner.device import cpu_facts
from tuner.measure.versions import TVM

TRIALS = 100_000
OF_A_JOB = 1000
AT_ONCE = 500
FAILED = 0.1
"""The share of trials that fail, each with ``ERROR``: as many as on a GPU."""
M, N = 16_384, 32
ERROR = (
    "NVRTC: ptxas error: Entry function 'main_kernel' uses too much shared data (0x1a000 bytes, "
    "0xc000 max); the configuration was built for sm_90a with 512 threads per block"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="path without suffix: .json and .md are made")
    options = parser.parse_args()
    engines = {}
    for name, databases in (("sqlite", sqlite_url), ("postgresql", postgresql_url)):
        with databases() as url:
            engines[name] = _measured(url)
    device = cpu_facts.device()
    result = {
        "command": "python -m tests.benchmarks.growth",
        "date": datetime.now(UTC).date().isoformat(),
        "device": f"{device.name} ({device.arch}), {device.limits.units} threads",
        "trials": TRIALS,
        "engines": engines,
    }
    page = _markdown(result)
    print(page)
    if options.write:
        options.write.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        options.write.with_suffix(".md").write_text(page)


def _measured(url: str) -> dict[str, Any]:
    engine = open_engine(url)
    migrate(engine)
    before = size(engine)
    _fill(engine)
    after = size(engine)
    vacuumed = reclaim(engine).bytes
    measured = {
        "bytes_empty": before,
        "bytes": after,
        "bytes_per_trial": (after - before) / TRIALS,
        "bytes_per_trial_vacuumed": (vacuumed - before) / TRIALS,
        "version": _version(engine),
    }
    engine.dispose()
    return measured


def _fill(engine: Engine) -> None:
    fingerprint = {
        "kind": "cuda",
        "name": "NVIDIA H200",
        "arch": "sm_90",
        "memory_bytes": 150_000_000_000,
        "driver": "580.1",
        "limits": {},
    }
    device_id = devices.upsert_device(engine, fingerprint).id
    draw = random.Random(0)  # noqa: S311
    for n in range(TRIALS // OF_A_JOB):
        workload = Conv1dWorkload(M=M + n, N=N)
        order = queue.JobOrder.of(workload, target="cuda", trials=OF_A_JOB, on_existing="retune")
        queue.submit(engine, order)
        job = queue.claim(engine, "worker", ["cuda"])
        assert job is not None
        new = _trials(workload, device_id, draw)
        while some := list(islice(new, AT_ONCE)):
            trials.add(engine, job.id, job.attempt, some)
        queue.finish(engine, job.id, job.attempt, "succeeded")


def _trials(
    workload: Conv1dWorkload, device_id: int, draw: random.Random
) -> Iterator[trials.NewTrial]:
    """Yield a trial for each of ``OF_A_JOB`` different configurations, drawn from the spaces of all
    templates together."""
    spaces = [
        (template, template.space(workload, H200))
        for template in templates.templates_for(workload, H200)
    ]
    every = [(template, space, n) for template, space in spaces for n in range(len(space))]
    for template, space, n in draw.sample(every, OF_A_JOB):
        ok = draw.random() > FAILED
        median = draw.uniform(4.0, 80.0)
        warm = {
            "median_us": median,
            "p10_us": median * draw.uniform(0.98, 1.0),
            "p90_us": median * draw.uniform(1.0, 1.02),
            "samples": 10,
            "calls_per_sample": 100,
        }
        yield trials.NewTrial(
            device_id=device_id,
            config=space[n],
            template=template.name,
            template_version=template.version,
            tvm_version=TVM,
            status="ok" if ok else "build_error",
            time_us=median if ok else None,
            timing={"warm": warm} if ok else None,
            max_error=draw.uniform(1e-8, 1e-6) if ok else None,
            error=None if ok else ERROR,
            seconds={phase: draw.uniform(0.01, 0.5) for phase in ("schedule", "build")}
            | ({phase: draw.uniform(0.01, 0.1) for phase in ("check", "run")} if ok else {}),
        )


def _version(engine: Engine) -> str:
    sqlite = engine.dialect.name == "sqlite"
    asked = "sqlite_version()" if sqlite else "current_setting('server_version')"
    with reading(engine) as connection:
        found = connection.execute(text(f"SELECT {asked}")).scalar_one()
    return str(found).split(maxsplit=1)[0]


def _markdown(result: dict[str, Any]) -> str:
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    return "\n".join(
        [
            "# Growth",
            "",
            f"{result['device']}, {result['date']}.",
            "",
            f"    {result['command']}",
            "",
            f"The database's size before and after {result['trials']:,} trials of conv1d's spaces "
            f"for an H200 are stored, in jobs of {OF_A_JOB:,}; {FAILED:.0%} of them failed, with a "
            "compiler's error. Indexes are in it.",
            "",
            "| engine | empty, MB | filled, MB | bytes a trial | after VACUUM |",
            "|---|---|---|---|---|",
            *(
                f"| {names[key]} {each['version']} | {each['bytes_empty'] / 1e6:.1f} "
                f"| {each['bytes'] / 1e6:.1f} | {each['bytes_per_trial']:.0f} "
                f"| {each['bytes_per_trial_vacuumed']:.0f} |"
                for key, each in result["engines"].items()
            ),
            "",
        ]
    )


if __name__ == "__main__":
    main()
