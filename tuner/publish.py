"""The winner into the storage: best, signed artifacts and the job's end, all or nothing."""

from __future__ import annotations

import socket
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.engine import Engine

from db.best import NewBest, finish_with_best
from db.jobs import Job
from db.signers import NewSigner
from tuner import artifact
from tuner.final import Winner
from tuner.measure.roofline import roofline
from tuner.plan import Plan
from tuner.signing_key import public_key_of
from tuner.versions import TVM, versions


def publish(
    engine: Engine,
    job: Job,
    plan: Plan,
    device_id: int,
    winner: Winner,
    *,
    record: dict[str, Any],
    trials_measured: int,
    key: Ed25519PrivateKey,
) -> None:
    """Sign the winner and end the job as succeeded. Raises LeaseLost where it is no longer this
    worker's."""
    workload, device = plan.workload, plan.device
    used = versions(device.kind)
    named = artifact.files(device.kind, winner.library, winner.built.source, record)
    described = artifact.manifest(
        workload,
        device,
        config=winner.config,
        template_version=plan.version(winner.config),
        versions=used,
        timing=winner.timing,
        max_error=winner.max_error,
        named=named,
    )
    best = NewBest(
        operator=workload.operator,
        workload_key=workload.key,
        workload=workload.model_dump(),
        device_id=device_id,
        template=winner.config["template"],
        template_version=plan.version(winner.config),
        tvm_version=TVM,
        config=winner.config,
        time_us=winner.time_us,
        timing=winner.timing,
        gflops=workload.flops / winner.time_us * 1e-3,
        roofline=roofline(workload, device.limits, winner.time_us, winner.empty_us),
        max_error=winner.max_error,
        baselines=winner.baselines,
        trials_measured=trials_measured,
        versions=used,
    )
    files = [*named, *artifact.sealed(described, key)]
    finish_with_best(engine, job.id, job.attempt, best, files, signer_of(key))


def signer_of(key: Ed25519PrivateKey) -> NewSigner:
    """As whom this host is registered."""
    return NewSigner(public_key_of(key), socket.gethostname())
