"""The files of a winner: library, device source, MetaSchedule record, manifest and signature."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import templates
from db.results import signed
from db.results.artifacts import NewArtifact
from templates.argument import workspace_of
from templates.workload import Workload
from tuner.device.device import Device
from tuner.library.manifest import VERSION
from tuner.measure.cases import CASES

SOURCE_TYPES = {"cuda": "text/x-cuda", "cpu": "text/x-asm"}


def files(kind: str, library: bytes, source: str, record: dict[str, Any]) -> list[NewArtifact]:
    """Return the files that a winner's manifest names; ``kind`` is the kind of device."""
    return [
        NewArtifact(library, "library", "application/x-sharedlib"),
        NewArtifact(source.encode(), "source", SOURCE_TYPES[kind]),
        NewArtifact(_json(record), "record", "application/json"),
    ]


def manifest(
    workload: Workload,
    device: Device,
    *,
    config: dict[str, Any],
    template_version: int,
    threads: int | None,
    versions: dict[str, str],
    timing: dict[str, Any],
    max_error: float,
    named: Sequence[NewArtifact],
    workspace: int = 0,
) -> dict[str, Any]:
    """Return the manifest: all that a user needs to know to call a library and to trust it.

    The manifest states the hashes and sizes of the files ``named``. ``workspace`` is the size of
    the library's workspace, in elements.
    """
    arithmetic = templates.arithmetic_of(workload.operator, device.kind, config["template"])
    return {
        "manifest_version": VERSION,
        "operator": workload.operator,
        "workload": workload.model_dump(),
        "workload_key": workload.key,
        "config": config,
        "template": config["template"],
        "template_version": template_version,
        "threads": threads,
        "arithmetic": None if arithmetic is None else asdict(arithmetic),
        "device": device.fingerprint(),
        "target": device.target,
        "versions": versions,
        "timing": timing,
        "max_error": max_error,
        "checks": list(CASES),
        "signature": {
            "function": "main",
            "arguments": [
                asdict(argument) for argument in (*workload.arguments, *workspace_of(workspace))
            ],
        },
    } | {file.kind: {"sha256": file.sha256, "size": len(file.content)} for file in named}


def signed_manifest(described: dict[str, Any], key: Ed25519PrivateKey) -> list[NewArtifact]:
    """Return the manifest and its signature by ``key``, as artifacts."""
    content = _json(described)
    return [
        NewArtifact(content, "manifest", "application/json"),
        NewArtifact(signed.sign(key, content).to_json(), "signature", "application/json"),
    ]


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1).encode()
