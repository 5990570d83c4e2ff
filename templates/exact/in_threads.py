"""Threads for NumPy's work, which mostly releases the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")

MAX_THREADS = 16
"""The most threads. Each keeps a few arrays of a block's size in memory."""


def in_threads(work: Callable[[Piece], object], pieces: Iterable[Piece]) -> None:
    """Call ``work`` on each piece, several at once. Raise what a call raises."""
    listed = list(pieces)
    threads = min(MAX_THREADS, _processors(), len(listed))
    if threads < 2:
        for piece in listed:
            work(piece)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, listed):
            pass


def _processors() -> int:
    """Return how many processors this process may use, or how many exist if that is not known."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
