"""The workspace of a compiled library: memory that the caller allocates, reused by every call."""

from __future__ import annotations

from typing import Any

FUNCTION = "workspace"
"""Name of a library's function that returns how many float32 elements of workspace it needs."""


def elements(module: Any) -> int:
    """Return how many float32 elements of workspace a loaded library needs; 0 if none."""
    return int(module[FUNCTION]()) if module.implements_function(FUNCTION) else 0
