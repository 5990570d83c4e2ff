"""A deadline for a part of what a process does, after which the process goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Over(BaseException):
    """Not an Exception: nothing that handles errors may keep it."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raises TimeoutError if what it holds takes longer, in native code as soon as that is back in
    Python. Main thread only."""

    def over(number: int, frame: FrameType | None) -> None:
        raise _Over

    handler = signal.signal(signal.SIGALRM, over)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Over:
        raise TimeoutError(f"not done after {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left)
