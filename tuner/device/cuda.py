"""What every call of CUDA's bindings needs."""

from __future__ import annotations

from typing import Any


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a cuda-bindings call. Raises RuntimeError with the name of its error."""
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(f"CUDA: {error.name}")
    return values[0] if values else None
