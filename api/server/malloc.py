"""Settings of malloc, so that the process returns memory that it no longer needs."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # malloc.h
LARGE_BYTES = 64 * 1024


def configure_malloc() -> None:
    """Let glibc's malloc return large blocks to the system, and use one heap for all threads.

    By default each of the forty threads that serve requests has a heap of its own, and freeing a
    large block raises the size up to which blocks come from a heap. Pages and exports would leave
    permanent holes in these heaps. With another C library, do nothing."""
    with suppress(AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_ARENA_MAX, 1)
