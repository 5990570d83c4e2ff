"""The winner as files: library, device source, manifest, MetaSchedule record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from db.artifacts import NewArtifact
from templates.workload import Workload
from tuner.device import Device
from tuner.measure.cases import CASES

MANIFEST_VERSION = 1
SOURCE_TYPES = {"cuda": "text/x-cuda", "cpu": "text/x-asm"}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def manifest(
    workload: Workload,
    device: Device,
    *,
    config: dict[str, Any],
    template_version: int,
    versions: dict[str, str],
    timing: dict[str, Any],
    max_error: float,
    library: bytes,
) -> dict[str, Any]:
    """What a user must know of a library to call it and to trust it."""
    arguments = (
        ("input", workload.input_shape),
        ("weight", workload.weight_shape),
        ("output", workload.output_shape),
    )
    return {
        "manifest_version": MANIFEST_VERSION,
        "operator": workload.operator,
        "workload": workload.model_dump(),
        "workload_key": workload.key,
        "config": config,
        "template": config["template"],
        "template_version": template_version,
        "device": device.fingerprint(),
        "target": device.target,
        "versions": versions,
        "timing": timing,
        "max_error": max_error,
        "checks": list(CASES),
        "library": {"sha256": sha256(library), "size": len(library)},
        "signature": {
            "function": "main",
            "arguments": [
                {"name": name, "shape": list(shape), "dtype": workload.dtype}
                for name, shape in arguments
            ],
        },
    }


def artifacts(
    kind: str, library: bytes, source: str, described: dict[str, Any], record: dict[str, Any]
) -> Sequence[NewArtifact]:
    """The files of a winner on that kind of device, ready to be stored."""
    return (
        NewArtifact(library, "library", "application/x-sharedlib"),
        NewArtifact(source.encode(), "source", SOURCE_TYPES[kind]),
        NewArtifact(_json(described), "manifest", "application/json"),
        NewArtifact(_json(record), "record", "application/json"),
    )


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1).encode()
