"""How a process that searches is asked to end: a signal sets a flag, and what waits looks at it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

LOOK_SECONDS = 0.5
"""Between two looks of what waits."""

T = TypeVar("T")


class _Flag:
    """What the next look raises. No Event: the main thread may hold its lock when a handler runs
    there."""

    asked: type[BaseException] | None = None


_flag = _Flag()


class Stopped(BaseException):
    """The process was asked to end. Not an Exception: nothing that handles errors may keep it."""


def stop_on_signals() -> None:
    """Let SIGTERM, SIGINT and a terminal that is closed raise Stopped at the next look."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # nohup's wish
        signal.signal(number, _asking(Stopped))


@contextmanager
def interruptible() -> Iterator[None]:
    """For a search in somebody else's program: Ctrl-C raises KeyboardInterrupt at the next look, or
    at the end. A program with a handler of its own keeps that."""
    usual = signal.default_int_handler
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not usual
    ):
        yield
        return
    signal.signal(signal.SIGINT, _asking(KeyboardInterrupt))
    try:
        yield
    except KeyboardInterrupt:
        _flag.asked = None  # a second one asks for nothing more
        raise
    finally:
        signal.signal(signal.SIGINT, usual)
        check_stopped()


def check_stopped() -> None:
    """Raise what was asked for, once: what cleans up afterwards may look, too. Other threads than
    the main one are not asked: it ends what works for it."""
    if _flag.asked is not None and threading.current_thread() is threading.main_thread():
        asked, _flag.asked = _flag.asked, None
        raise asked


def pause(seconds: float) -> None:
    """Sleep, and look meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        check_stopped()
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, LOOK_SECONDS))


def result_of(future: Future[T]) -> T:
    """As ``future.result()``, looking meanwhile."""
    check_stopped()
    while wait([future], LOOK_SECONDS).not_done:
        check_stopped()
    return future.result()


def _asking(what: type[BaseException]) -> Callable[[int, FrameType | None], None]:
    def handler(number: int, frame: FrameType | None) -> None:
        _flag.asked = what

    return handler
