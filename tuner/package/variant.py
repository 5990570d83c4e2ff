"""A build variant of a package, in the layout of Hugging Face's ``kernels``: a folder that is a
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
"""The modules that are copied into each variant unchanged."""
LICENCE = "Apache-2.0"
VERSION = 1


def variant_name(kind: str) -> str:
    """Return the name of a variant's folder, such as ``tvm-ffi01-cpu-x86_64-linux``.

    A variant for GPUs names the lowest release of CUDA that TVM's runtime works with, because
    ``kernels`` chooses variants for the installed release of CUDA or an earlier one."""
    major, minor = version("apache-tvm-ffi").split(".")[:2]
    backend = "cpu" if kind == "cpu" else f"cu{cuda_major()}0"
    return f"tvm-ffi{major}{minor}-{backend}-{platform.machine()}-linux"


def write_variant(folder: Path, name: str, kind: str, kernels: Sequence[Packed]) -> str:
    """Write the variant for machines with that kind of device into ``folder``, which is created.
    Return the variant's id."""
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
    """Return the contents of a variant's files, by relative path, all but ``metadata.json``."""
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
    """Return the content of ``metadata.json``, which ``kernels`` reads.

    The id contains a hash of all files. It is also the namespace of the package's operators in
    PyTorch."""
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
