"""Error handling for calls of CUDA's Python bindings."""

from __future__ import annotations

from typing import Any


def checked(result: tuple[Any, ...]) -> Any:
    """Return the value of a cuda-bindings call; None if it has none.

    Raises RuntimeError with the error's name if the call failed.
    """
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(f"CUDA: {error.name}")
    return values[0] if values else None
