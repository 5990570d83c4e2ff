"""Store a best with its files, as a worker does at the end of a job."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from small_libraries import RECORD, SOURCE, workload
from sqlalchemy import Engine

from db import queue
from db.fleet import devices
from db.results import best, trials
from db.results.artifacts import NewArtifact
from templates.workload import Workload
from tuner.device import cpu_facts
from tuner.job import artifact
from tuner.job.publish import signer_of
from tuner.library.signing_key import default_path, own_key

TVM = "0.27.0"


def claimed(engine: Engine) -> queue.Job:
    """Claim the next job for the CPU as "worker-1"; it must exist."""
    job = queue.claim(engine, "worker-1", ["cpu"])
    assert job is not None
    return job


def new_trial(device_id: int, number: int, status: str = "ok") -> trials.NewTrial:
    """Return a trial of 20 µs or, if its status is not ok, one without a time and with an error."""
    right = status == "ok"
    return trials.NewTrial(
        device_id=device_id,
        config={"template": "direct", "lanes": number},
        template="direct",
        template_version=1,
        tvm_version=TVM,
        status=status,
        time_us=20.0 if right else None,
        timing={"warm": {"median": 20.0}} if right else None,
        max_error=1e-7 if right else None,
        error=None if right else "no such register",
        seconds={"schedule": 0.1, "build": 0.2},
    )


NUMPY = {"name": "numpy", "time_us": 200.0, "speedup": 10.0}


def store(
    engine: Engine, library: Path, baselines: Sequence[dict[str, Any]] = (NUMPY,)
) -> queue.Job:
    """Store a best of the library with a time of 20 µs; return its job, which has succeeded with
    three trials, one of them a build error."""
    work = workload(library.stem.partition("-")[0])
    manifest: dict[str, Any] = json.loads(library.with_suffix(".json").read_text())
    order = queue.JobOrder.of(work, trials=3, search="random", on_existing="retune")
    queue.submit(engine, order)
    job = claimed(engine)
    device = devices.upsert_device(engine, manifest["device"])
    tried = [
        new_trial(device.id, 4),
        new_trial(device.id, 5, "build_error"),
        new_trial(device.id, 8),
    ]
    trials.add(engine, job.id, job.attempt, tried)
    new = best.NewBest(
        operator=work.operator,
        workload_key=work.key,
        workload=work.model_dump(),
        device_id=device.id,
        template=manifest["template"],
        template_version=manifest["template_version"],
        tvm_version=TVM,
        config=manifest["config"],
        threads=manifest["threads"],
        time_us=20.0,
        timing=manifest["timing"],
        gflops=50.0,
        roofline={"bound": "compute", "floor_us": 5.0, "fraction": 0.25},
        max_error=1e-7,
        baselines=list(baselines),
        trials_measured=3,
        versions={"apache-tvm": TVM},
    )
    files = [
        *artifact.files("cpu", library.read_bytes(), SOURCE, RECORD),
        NewArtifact(library.with_suffix(".json").read_bytes(), "manifest", "application/json"),
        NewArtifact(library.with_suffix(".sig").read_bytes(), "signature", "application/json"),
    ]
    signer = signer_of(own_key(default_path()))
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(new, files)], signer)
    return queue.get(engine, job.id)


def store_on_another_cpu(engine: Engine, work: Workload, name: str) -> None:
    """Store a fast best of a CPU of this name, after a job of four trials, without files."""
    facts = cpu_facts.device().fingerprint() | {"name": name}
    there = devices.upsert_device(engine, facts)
    queue.submit(engine, queue.JobOrder.of(work, trials=4))
    job, config = claimed(engine), {"template": "direct"}
    tried = trials.NewTrial(
        device_id=there.id, config=config, template="direct", template_version=1,
        tvm_version="0", status="ok", time_us=0.001, timing={}, max_error=0.0, error=None,
        seconds={},
    )  # fmt: skip
    trials.add(engine, job.id, job.attempt, [tried])
    found = best.NewBest(
        operator=work.operator, workload_key=work.key, workload=work.model_dump(),
        device_id=there.id, template="direct", template_version=1, tvm_version="0", config=config,
        time_us=0.001, timing={}, gflops=1.0, roofline={}, max_error=0.0, baselines=[],
        trials_measured=1, versions={},
    )  # fmt: skip
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(found, [])])
