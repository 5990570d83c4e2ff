"""What the process keeps of the memory that it once needed."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # malloc.h
LARGE_BYTES = 64 * 1024


def give_back_memory() -> None:
    """Have glibc's malloc return what is large, and use one heap for all threads.

    By default each of the forty threads that serve requests has a heap of its own, and a block
    that is freed raises the size below which blocks come from a heap: a page or an export would
    leave holes there that stay."""
    with suppress(AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_ARENA_MAX, 1)
