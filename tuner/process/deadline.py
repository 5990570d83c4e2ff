"""A deadline for a block of code, after which the process itself goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Over(BaseException):
    """The deadline has passed. It is no Exception, so that no handler of errors catches it."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block if it takes longer than ``seconds``.

    A native call is not interrupted: the error is raised when it returns to Python. This works in
    the main thread only."""

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
