"""What the process keeps of the memory that it once needed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_ARENA_MAX = -8
ARENAS = 2


def few_arenas() -> None:
    """Let all threads allocate from the same few places. glibc would give each of the forty that
    serve requests its own, of which each keeps the most that one request ever took."""
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)
