"""The host's C or C++ compiler, which links libraries."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tuner.errors import NoLinker
from tuner.process.scratch import temporary_folder

NAMES = ("g++", "clang++", "c++", "gcc", "clang", "cc")
"""Compilers that are looked for, in this order."""
LIBRARIES = ("-nostdlib", "-lm", "-lc", "-lgcc")
"""Options after a library's objects. They leave out the C++ runtime: a library needs nothing of it,
and searching it takes twice as long as the rest of the link."""


def linker() -> str:
    """Return the compiler's path: that of CXX if it is set, else of the first of NAMES that exists.

    Raises NoLinker if there is no compiler, or if CXX names no program.
    """
    asked = os.environ.get("CXX")
    for name in [asked] if asked else NAMES:
        path = shutil.which(name)
        if path:
            return path
    raise NoLinker(asked or "")


def must_link() -> None:
    """Raise NoLinker if there is no compiler, or if it can't link a shared library.

    Linking fails if an assembler, a linker or the C library's files are missing. Without this
    check, every candidate of every job would fail.
    """
    _must_link(linker())


@cache
def _must_link(compiler: str) -> None:
    """Check once in each process: a command asks first, and its builder asks again. Errors are not
    kept."""
    _link_empty_library(compiler)


def must_still_link() -> None:
    """Raise NoLinker as :func:`must_link` does, but ask anew each time."""
    _link_empty_library(linker())


def _link_empty_library(compiler: str) -> None:
    with TemporaryDirectory(dir=temporary_folder()) as folder:
        to = ["-o", f"{folder}/empty.so", *LIBRARIES]
        run(compiler, "-shared", "-fPIC", "-x", "c", os.devnull, *to)


def run(compiler: str, *arguments: str) -> None:
    """Run the compiler on correct sources. Raises NoLinker if it fails."""
    # Python passes over a TMPDIR that can't be written, but a compiler takes it.
    environment = os.environ | {"TMPDIR": str(temporary_folder())}
    command = [compiler, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise NoLinker(compiler, said[0])


def identity() -> str:
    """Return a text that is different for another linker, or another version of this one."""
    path = Path(linker()).resolve()
    seen = path.stat()
    return f"{path} {seen.st_size} {seen.st_mtime_ns} {' '.join(LIBRARIES)}"
