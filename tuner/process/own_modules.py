"""Running one of our own modules as a process that does not search the working folder."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
"""The folder in which our packages lie."""


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module as ``python -m`` does, but does not search the working
    folder: a user's ``queue.py`` there would be taken for Python's.

    The process needs :func:`environment`, too."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Return the variable by which a process finds the modules that this process finds.

    It finds our own modules even if this process found them in its working folder. Folders that
    Python finds by itself are left out, because a Python of another version may inherit the
    variable."""
    places = [place for place in sys.path if isinstance(place, str) and place]
    if ROOT not in places:
        places.insert(0, ROOT)
    own = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
    return {"PYTHONPATH": os.pathsep.join(each for each in places if not each.startswith(own))}
