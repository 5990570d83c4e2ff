"""Rows to store in tests, a snapshot of all that is stored, and ways to damage a database."""

import json
from typing import Any

from sqlalchemy import Engine, select, text

from db import queue
from db.fleet import devices
from db.results import artifacts, best, trials
from db.sql.tables import metadata
from db.sql.transaction import reading, writing

FINGERPRINT = {
    "kind": "cuda",
    "name": "Test GPU",
    "arch": "sm_90",
    "memory_bytes": 150_000_000_000,  # does not fit 32 bits
    "driver": "580.1",
    "limits": {"units": 132},
}


def order(length: int = 64, **changes: Any) -> queue.JobOrder:
    """Return an order of a conv1d of this length; ``changes`` are fields of the order."""
    workload = {"M": length, "N": 3}
    values: dict[str, Any] = {
        "operator": "conv1d",
        "workload_key": json.dumps({"operator": "conv1d", **workload}),
        "workload": workload,
        "target": "auto",
        "trials": 4,
        "search": "xgb",
        "on_existing": "retune",
    }
    return queue.JobOrder(**values | changes)


def submitted(engine: Engine, length: int = 64, **changes: Any) -> queue.Job:
    """Submit an order, which must make a new job, and return the job."""
    job, created = queue.submit(engine, order(length, **changes))
    assert created
    return job


def claimed(engine: Engine, worker: str = "worker", seconds: float = 30) -> queue.Job:
    """Claim and return the next job; if ``seconds`` is below 0, its lease has run out already."""
    job = queue.claim(engine, worker, ["cuda"], seconds)
    assert job is not None
    return job


def device(engine: Engine, **changes: Any) -> devices.Device:
    """Register the test GPU, or a device that differs in ``changes``, and return it."""
    return devices.upsert_device(engine, FINGERPRINT | changes)


def new_trial(device_id: int, knob: int, **changes: Any) -> trials.NewTrial:
    """Return a trial that worked, whose configuration has ``knob`` threads."""
    values: dict[str, Any] = {
        "device_id": device_id,
        "config": {"template": "direct", "threads": knob},
        "template": "direct",
        "template_version": 1,
        "tvm_version": "0.27.0",
        "status": "ok",
        "time_us": 1.5,
        "timing": {"warm": {"median": 1.5}},
        "max_error": 1e-7,
        "error": None,
        "seconds": {"build": 0.25, "run": 0.5},
    }
    return trials.NewTrial(**values | changes)


def new_best(job: queue.Job, device_id: int, **changes: Any) -> best.NewBest:
    """Return a best for the job; ``changes`` are fields of the best."""
    values: dict[str, Any] = {
        "operator": job.operator,
        "workload_key": job.workload_key,
        "workload": job.workload,
        "device_id": device_id,
        "template": "direct",
        "template_version": 1,
        "tvm_version": "0.27.0",
        "config": {"template": "direct", "threads": 64},
        "time_us": 1.5,
        "timing": {"warm": {"median": 1.5}, "cold": {"median": 4.0}},
        "gflops": 600.0,
        "roofline": {"bound": "compute"},
        "max_error": 1e-7,
        "baselines": [{"name": "numpy", "time_us": 300.0, "speedup": 200.0}],
        "trials_measured": 4,
        "versions": {"tvm": "0.27.0"},
    }
    return best.NewBest(**values | changes)


FILES = [
    artifacts.NewArtifact(b"\x7fELF\0library", "library", "application/x-sharedlib"),
    artifacts.NewArtifact(b"int main;", "source", "text/x-c"),
]


def everything(engine: Engine) -> dict[str, list[Any]]:
    """Return all rows of all tables, by table; if they are equal later, nothing was written."""
    with reading(engine) as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
        }


def of_another_schema(blank: Engine, revision: str) -> None:
    """Make a database of a revision that this code does not know; its ``jobs`` are unusable."""
    with writing(blank) as connection:
        for statement in (
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
            "CREATE TABLE jobs (said TEXT)",
            "INSERT INTO jobs VALUES ('kept')",
        ):
            connection.execute(text(statement))
        named = text("INSERT INTO alembic_version VALUES (:revision)")
        connection.execute(named, {"revision": revision})


def recorded(engine: Engine, job: queue.Job, new: best.NewBest) -> best.Best:
    """End the job with this best, and return the best as it is stored."""
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(new)])
    [stored] = best.bests_on_device(engine, new.workload_key, new.device_id)[-1:]
    return stored


def let_rot(engine: Engine) -> None:
    """Damage all pages in the second half of a SQLite file."""
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    file = engine.url.database
    assert file is not None
    with open(file, "r+b") as stream:  # noqa: PTH123
        stream.seek(0, 2)
        size = stream.tell()
        for page in range(size // 2 // 4096 * 4096, size, 4096):
            stream.seek(page)
            stream.write(b"\xff" * 64)
