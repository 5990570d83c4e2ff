"""Signals wait for the end of what must not be cut: a transaction on SQLite, and a statement that
PostgreSQL commits by itself.

An exception that a signal's handler raises within the former leaves SQLite's statement in its
traceback, and with it the lock on the file: whoever handles it, and writes, would wait for itself.
Within the latter it drops the connection, and the server carries the statement out all the same,
perhaps later than whoever handles the exception has looked. PostgreSQL rolls back whatever else
was under way when its connection was dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Here(threading.local):
    depth = 0
    waiting: Callable[[], None] | None = None


_HERE = _Here()


@contextmanager
def undisturbed() -> Iterator[None]:
    """What is handed to :func:`when_undisturbed` in this thread meanwhile is called at the end."""
    _HERE.depth += 1
    try:
        yield
    finally:
        _HERE.depth -= 1
        if _HERE.depth == 0:
            disturb()


def disturb() -> None:
    """Call what waits: nothing is under way in this thread."""
    action, _HERE.waiting = _HERE.waiting, None
    if action is not None:
        action()


def when_undisturbed(action: Callable[[], None]) -> None:
    """Call it now, or at the end of what this thread is at where that must not be cut. For a
    signal's handler; of several that wait the last is called."""
    if _HERE.depth == 0:
        _HERE.waiting = None  # one is enough
        action()
    else:
        _HERE.waiting = action
