"""The host's compiler, which links libraries."""

import os
import shutil

from tuner.errors import NoLinker

NAMES = ("g++", "clang++", "c++", "gcc", "clang", "cc")


def linker() -> str:
    """The path of CXX if that is set, else of the first of NAMES that exists. Raises NoLinker."""
    asked = os.environ.get("CXX")
    for name in [asked] if asked else NAMES:
        path = shutil.which(name)
        if path:
            return path
    raise NoLinker
