"""One build variant of a package, as huggingface's ``kernels`` lays them out: a folder that is a
Python package, with the kernels for some kinds of devices."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tuner.package.contents import Packed
from tuner.package.runtime import cuda_major, runtime_files

SHIPPED = Path(__file__).with_name("shipped")
"""What is in each as it is here."""
LICENCE = "Apache-2.0"
VERSION = 1


def variant_name(kind: str) -> str:
    """Such as ``tvm-ffi01-cpu-x86_64-linux``. Its CUDA is the lowest of those that have what TVM's
    runtime needs, because ``kernels`` takes a variant for the installed one or a lower one."""
    major, minor = version("apache-tvm-ffi").split(".")[:2]
    backend = "cpu" if kind == "cpu" else f"cu{cuda_major()}0"
    return f"tvm-ffi{major}{minor}-{backend}-{platform.machine()}-linux"


def write_variant(folder: Path, name: str, kind: str, kernels: Sequence[Packed]) -> str:
    """The variant for machines with that kind of device, in a folder that is made; its id."""
    files = variant_files(kind, kernels)
    digest = {
        name: base64.b64encode(hashlib.sha256(content).digest()).decode()
        for name, content in sorted(files.items())
    }
    described = metadata(name, kind, kernels, digest)
    for path, content in (files | {"metadata.json": _json(described)}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return str(described["id"])


def variant_files(kind: str, kernels: Sequence[Packed]) -> dict[str, bytes]:
    """All but its metadata, by their paths."""
    files = {path.name: path.read_bytes() for path in SHIPPED.glob("*.py")}
    rows = ",\n".join(json.dumps(kernel.row) for kernel in kernels)
    files["kernels.json"] = f"[\n{rows}\n]\n".encode()
    for kernel in kernels:
        base = f"kernels/{kernel.row['file']}"
        files |= {f"{base}.so": kernel.library, f"{base}.json": kernel.manifest}
        files |= {f"{base}.sig": kernel.signature}
    return files | {f"tvm_runtime/{name}": content for name, content in runtime_files(kind).items()}


def metadata(
    name: str, kind: str, kernels: Sequence[Packed], digest: Mapping[str, str]
) -> dict[str, Any]:
    """As ``kernels`` reads it. The id, which differs if any file does, is the namespace of the
    package's operators too."""
    whole = hashlib.sha256(_json(digest)).hexdigest()
    backend: dict[str, Any] = {"type": kind}
    if kind == "cuda":
        archs = {kernel.arch.removeprefix("sm_") for kernel in kernels if kernel.kind == kind}
        backend["archs"] = [f"{arch[:-1]}.{arch[-1]}" for arch in sorted(archs, key=int)]
    return {
        "name": name,
        "id": f"_{name.replace('-', '_')}_{kind}_{whole[:12]}",
        "version": VERSION,
        "license": LICENCE,
        "python-depends": ["tvm-ffi"],
        "backend": backend,
        "digest": {"algorithm": "sha256", "files": dict(digest)},
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"
