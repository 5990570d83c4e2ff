"""The workspace of a compiled library: memory that its caller allocates, and that keeps nothing
between two calls."""

from __future__ import annotations

from typing import Any

FUNCTION = "workspace"
"""Of a library that needs one; it returns how many elements, of float32."""


def elements(module: Any) -> int:
    """How many a loaded library asks for."""
    return int(module[FUNCTION]()) if module.implements_function(FUNCTION) else 0
