"""Storing the winners: bests, signed artifacts and the end of the job, all or nothing."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.engine import Engine

from db.contract.job import Job
from db.results.artifacts import NewArtifact
from db.results.best import BestWithFiles, NewBest, finish_with_bests
from db.results.signers import NewSigner
from db.results.trials import config_key
from tuner.job import artifact
from tuner.job.final import Winner
from tuner.library.signing_key import public_key_of
from tuner.measure.roofline import roofline
from tuner.measure.versions import TVM, versions
from tuner.plan.plan import Plan


@dataclass(frozen=True)
class Signing:
    """The key that signs winners, and the public keys that are trusted besides it.

    ``trusted`` are those of the user who tunes. None stands for every registered key: the clients
    of a service trust them all.
    """

    key: Ed25519PrivateKey
    trusted: frozenset[str] | None = None


def publish(
    engine: Engine,
    job: Job,
    plan: Plan,
    device_id: int,
    winners: Sequence[Winner],
    *,
    records: Sequence[dict[str, Any]],
    trials_measured: int,
    signing: Signing,
) -> None:
    """Sign the winners, store them as bests and end the job as succeeded.

    ``records`` are the MetaSchedule records of the winners, in their order. A stored best that was
    faster by the same protocol and versions stays, unless its key is not trusted and it took part
    in the last round. Raises LeaseLost if the job is no longer this worker's.
    """
    found = [
        BestWithFiles(
            _best(plan, device_id, winner, trials_measured),
            _files(plan, winner, record, signing.key),
        )
        for winner, record in zip(winners, records, strict=True)
    ]
    compared = {
        (config_key(config), plan.version(config))
        for config in (finalist["config"] for finalist in winners[0].timing["finalists"])
    }
    signer, trusted = signer_of(signing.key), signing.trusted
    if trusted is not None:
        trusted |= {signer.public_key}
    finish_with_bests(engine, job.id, job.attempt, found, signer, compared, trusted)


def _files(
    plan: Plan, winner: Winner, record: dict[str, Any], key: Ed25519PrivateKey
) -> list[NewArtifact]:
    kind = plan.device.kind
    named = artifact.files(kind, winner.library, winner.built.source, record)
    described = artifact.manifest(
        plan.workload,
        plan.device,
        config=winner.config,
        template_version=plan.version(winner.config),
        threads=winner.threads,
        versions=versions(kind),
        timing=winner.timing,
        max_error=winner.max_error,
        named=named,
        workspace=winner.built.workspace,
    )
    return [*named, *artifact.signed_manifest(described, key)]


def _best(plan: Plan, device_id: int, winner: Winner, trials_measured: int) -> NewBest:
    workload, device = plan.workload, plan.device
    return NewBest(
        operator=workload.operator,
        workload_key=workload.key,
        workload=workload.model_dump(),
        device_id=device_id,
        threads=winner.threads,
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
        versions=versions(device.kind),
    )


def signer_of(key: Ed25519PrivateKey) -> NewSigner:
    """Return the signer under which this host registers the key."""
    return NewSigner(public_key_of(key), socket.gethostname())
