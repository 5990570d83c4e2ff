"""Database rows as a worker writes them, made with the storage's own functions."""

import json
from itertools import count
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Engine, func, select

from db import queue
from db.fleet import devices
from db.results import artifacts, best, signed, trials
from db.results.signers import NewSigner
from db.sql.engine import reading
from db.sql.tables import metadata
from templates import operator, templates_for
from templates.limits import DeviceLimits

CUDA = DeviceLimits(
    kind="cuda",
    arch="sm_90",
    units=132,
    threads_per_block=1024,
    shared_memory_per_block=232_448,
    warp_size=32,
    registers_per_unit=65_536,
)
CPU = DeviceLimits(kind="cpu", arch="znver4", units=2, vector_bytes=64)
GPU = {
    "kind": "cuda",
    "name": "Test GPU",
    "arch": "sm_90",
    "memory_bytes": 150_000_000_000,
    "driver": "580.1",
    "limits": CUDA.to_json(),
}
HOST = {
    "kind": "cpu",
    "name": "Test CPU",
    "arch": "znver4",
    "memory_bytes": 8_000_000_000,
    "driver": "",
    "limits": CPU.to_json(),
}
LIBRARY = b"\x7fELF" + bytes(range(256)) * 4
RECORD = {"workload": ["17", "base64"], "tuning_record": [[], [1.5e-6], {}, []]}

SIGNING_KEY = Ed25519PrivateKey.generate()
SIGNER = NewSigner(SIGNING_KEY.public_key().public_bytes_raw().hex(), "gpu-host-1")

_number = count(1)  # makes each configuration a new one


def files(tag: str = "", key: str = "") -> list[artifacts.NewArtifact]:
    """Return the five artifacts of a best, signed; ``key`` is its workload's key."""
    named = [
        artifacts.NewArtifact(LIBRARY + tag.encode(), "library", "application/octet-stream"),
        artifacts.NewArtifact(f"// {tag}".encode(), "source", "text/x-cuda"),
        artifacts.NewArtifact(
            json.dumps({**RECORD, "tag": tag}).encode(), "record", "application/json"
        ),
    ]
    manifest: dict[str, Any] = {"tag": tag, "workload_key": key}
    manifest |= {file.kind: {"sha256": file.sha256, "size": len(file.content)} for file in named}
    content = json.dumps(manifest).encode()
    signature = signed.sign(SIGNING_KEY, content)
    return [
        *named,
        artifacts.NewArtifact(content, "manifest", "application/json"),
        artifacts.NewArtifact(signature.to_json(), "signature", "application/json"),
    ]


def running(engine: Engine, name: str, shape: dict[str, Any], **order: Any) -> queue.Job:
    """Order and claim a job for the shape, and return it; no other job may be queued."""
    workload = operator(name).workload.model_validate(shape)
    values: dict[str, Any] = {
        "target": "auto",
        "trials": 2,
        "search": "xgb",
        "on_existing": "retune",
    }
    queue.submit(
        engine,
        queue.JobOrder.of(workload, **(values | order)),
    )
    job = queue.claim(engine, "worker-1", ["cpu", "cuda"])
    assert job is not None
    assert job.workload_key == workload.key
    return job


def new_trial(device: devices.Device, number: int, **changes: Any) -> trials.NewTrial:
    """Return a trial that worked; ``number`` makes its configuration and its time differ."""
    values: dict[str, Any] = {
        "device_id": device.id,
        "config": {"template": "direct", "threads": number},
        "template": "direct",
        "template_version": 1,
        "tvm_version": "0.27.0",
        "status": "ok",
        "time_us": 1.0 + number,
        "timing": {"warm": {"median": 1.0 + number}},
        "max_error": 1e-7,
        "error": None,
        "seconds": {"schedule": 0.1, "build": 0.2, "check": 0.1, "run": 0.1},
    }
    return trials.NewTrial(**values | changes)


LONG = 2000


def long_log(engine: Engine) -> None:
    """Store LONG failed trials; as JSON lines they are more than the buffers of sockets hold."""
    job = running(engine, "conv1d", {"M": 100, "N": 3})
    part = devices.upsert_device(engine, GPU)
    said = "an error " * 1000
    failed = {"status": "build_error", "error": said, "time_us": None}
    stored = [new_trial(part, n, **failed) for n in range(LONG)]
    trials.add(engine, job.id, job.attempt, stored)


def tuned(
    engine: Engine,
    name: str,
    shape: dict[str, Any],
    fingerprint: dict[str, Any] = GPU,
    time_us: float = 1.5,
    **changes: Any,
) -> queue.Job:
    """Store and return a job that succeeded.

    It has two trials and a best, which has the template's default configuration and five artifacts.
    """
    device = devices.upsert_device(engine, fingerprint)
    job = running(engine, name, shape)
    trials.add(engine, job.id, job.attempt, [new_trial(device, next(_number)) for _ in range(2)])
    workload = operator(name).workload.model_validate(shape)
    limits = DeviceLimits.from_json(device.limits)
    template = templates_for(workload, limits)[0]
    values: dict[str, Any] = {
        "operator": name,
        "workload_key": job.workload_key,
        "workload": job.workload,
        "device_id": device.id,
        "template": template.name,
        "template_version": template.version,
        "tvm_version": "0.27.0",
        "config": template.default(workload, limits),
        "time_us": time_us,
        "timing": {"warm": {"median": time_us}, "cold": {"median": 3 * time_us}},
        "gflops": 600.0,
        "roofline": {"bound": "compute", "floor_us": 0.1, "fraction": 0.07},
        "max_error": 1e-7,
        "baselines": [{"name": "numpy", "time_us": 300.0, "speedup": 200.0}],
        "trials_measured": 2,
        "versions": {"tvm": "0.27.0"},
    }
    new = best.NewBest(**values | changes)
    made = files(job.id, job.workload_key)
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(new, made)], SIGNER)
    return queue.get(engine, job.id)


COUNTS = select(
    *(select(func.count()).select_from(each).label(each.name) for each in metadata.sorted_tables)
)


def rows(engine: Engine) -> dict[str, int]:
    """Return the number of rows in each table."""
    with reading(engine) as connection:
        return connection.execute(COUNTS).one()._asdict()
