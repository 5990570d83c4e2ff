"""A deadline for a call in this process, which goes on afterwards."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

SOON_SECONDS = 1e-6
"""The shortest time that sets a timer: 0 would stop it."""

T = TypeVar("T")


class _Over(BaseException):
    """The deadline has passed. It is no Exception, so that no handler of errors catches it."""


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """Return ``function()``. Interrupt it and raise TimeoutError after ``seconds``.

    A native call is not interrupted: the error is raised when it returns to Python. An alarm that
    was set before, such as that of an outer deadline, comes when it is due, or at the function's
    end if that is later. This works in the main thread only.

    This is no context manager, because an alarm in the code that leaves one would not be caught."""
    is_running = True

    def over(number: int, frame: FrameType | None) -> None:
        if is_running:
            raise _Over

    start = time.monotonic()
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    handler = signal.signal(signal.SIGALRM, over)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return function()
        finally:
            is_running = False
    except _Over:  # raised before the assignment
        raise TimeoutError(f"not done after {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            due = left - (time.monotonic() - start)
            signal.setitimer(signal.ITIMER_REAL, max(due, SOON_SECONDS))
