"""The host's compiler, which links libraries."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tuner.errors import NoLinker

NAMES = ("g++", "clang++", "c++", "gcc", "clang", "cc")
LIBRARIES = ("-nostdlib", "-lm", "-lc", "-lgcc")
"""What a library is linked with, behind its objects. It needs nothing of C++, and to look through
that takes twice as long as all else of a link."""


def linker() -> str:
    """The path of CXX if that is set, else of the first of NAMES that exists. Raises NoLinker."""
    asked = os.environ.get("CXX")
    for name in [asked] if asked else NAMES:
        path = shutil.which(name)
        if path:
            return path
    raise NoLinker


def must_link() -> None:
    """Raises NoLinker if there is no compiler, or if it lacks an assembler, a linker or the C
    library's files: each job would fail, one candidate after the other."""
    _must_link(linker())


@cache
def _must_link(compiler: str) -> None:
    """Once a process, unless it raises: a command asks first, and its builder again."""
    with TemporaryDirectory() as folder:
        to = ["-o", f"{folder}/empty.so", *LIBRARIES]
        command = [compiler, "-shared", "-fPIC", "-x", "c", os.devnull, *to]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise NoLinker(compiler, said[0])


def identity() -> str:
    """What tells this linker from another, and from its own next version."""
    path = Path(linker()).resolve()
    seen = path.stat()
    return f"{path} {seen.st_size} {seen.st_mtime_ns} {' '.join(LIBRARIES)}"
