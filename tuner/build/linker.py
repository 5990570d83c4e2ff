"""The host's compiler, which links libraries."""

import os
import shutil
from pathlib import Path

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


def identity() -> str:
    """What tells this linker from another, and from its own next version."""
    path = Path(linker()).resolve()
    seen = path.stat()
    return f"{path} {seen.st_size} {seen.st_mtime_ns} {' '.join(LIBRARIES)}"
