"""TVM's runtime libraries and their licences, which are copied into a package."""

from __future__ import annotations

import re

from tuner.errors import MissingRuntime
from tuner.library.runtime import LIBRARIES, libraries_folder

_NOTE = """\
The libraries here are those of Apache TVM, unchanged, under the Apache License 2.0: LICENSE, and
NOTICE. What they contain of others is under the licences in licenses.
"""


def runtime_files(kind: str) -> dict[str, bytes]:
    """Return the contents of the libraries that run kernels for ``cpu`` or ``cuda``, and of their
    licences, by relative path. Raise MissingRuntime if TVM is not installed or can't be read."""
    tvm = libraries_folder().parent
    terms = [tvm / "LICENSE", tvm / "NOTICE", *sorted((tvm / "licenses").glob("*"))]
    named = {str(path.relative_to(tvm)): path.read_bytes() for path in terms}
    return {name: library(name) for name in LIBRARIES[kind]} | named | {"README": _NOTE.encode()}


def library(name: str) -> bytes:
    """Return the content of one of TVM's runtime libraries. Raise MissingRuntime."""
    try:
        return (libraries_folder() / name).read_bytes()
    except OSError as error:
        raise MissingRuntime(
            f"{name} can't be read ({error})", "install apache-tvm again"
        ) from error


def cuda_major() -> int:
    """Return the major version of CUDA that TVM's runtime for GPUs is linked to."""
    needed = re.search(rb"libcudart\.so\.(\d+)", library(LIBRARIES["cuda"][-1]))
    assert needed is not None  # noqa: S101
    return int(needed[1])
