"""The stop flag: signals set it, and waiting code looks at it, so that a search ends in order."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

POLL_SECONDS = 0.5
"""How long waiting code may go without a look at the stop flag."""

T = TypeVar("T")


class _Flag:
    """The stop flag: the exception that the next look raises, or None. It is no Event, because the
    main thread may hold an Event's lock when the signal handler runs there."""

    asked: type[BaseException] | None = None


_flag = _Flag()


class _Checks(threading.local):
    """A function that a thread also calls when it looks at the stop flag."""

    check: Callable[[], None] = staticmethod(lambda: None)


_checks = _Checks()


class Stopped(BaseException):
    """The process was asked to end, or is ending. It is no Exception, so that no handler of errors
    catches it."""


def stop_on_signals() -> None:
    """Let SIGTERM, SIGINT and SIGHUP (a closed terminal) raise Stopped at the next look."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # started by nohup
        signal.signal(number, _stop_handler(Stopped))


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C in the block raise KeyboardInterrupt at the next look, or at the block's end.

    This is for a search within a user's program. If the program has a handler of its own, or the
    block runs in another thread than the main one, nothing changes."""
    usual = signal.default_int_handler
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not usual
    ):
        yield
        return
    signal.signal(signal.SIGINT, _stop_handler(KeyboardInterrupt))
    try:
        yield
    except KeyboardInterrupt:
        _flag.asked = None  # a second Ctrl-C meanwhile needs no second exception
        raise
    finally:
        signal.signal(signal.SIGINT, usual)
        check_stopped()


@contextmanager
def checking(check: Callable[[], None]) -> Iterator[None]:
    """In the block, let this thread call ``check()``, too, when it looks at the stop flag. It may
    raise."""
    before, _checks.check = _checks.check, check
    try:
        yield
    finally:
        _checks.check = before


def check_stopped() -> None:
    """Look at the stop flag: raise its exception and clear it, so that clean-up code may look again
    afterwards. Only the main thread raises it: the main thread ends the other threads itself. See
    also :func:`checking`."""
    if _flag.asked is not None and threading.current_thread() is threading.main_thread():
        asked, _flag.asked = _flag.asked, None
        raise asked
    _checks.check()


def pause(seconds: float) -> None:
    """Sleep for that many seconds, and look at the stop flag meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        check_stopped()
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, POLL_SECONDS))


def wait_for(future: Future[T]) -> T:
    """Return ``future.result()``, and look at the stop flag while waiting for it."""
    check_stopped()
    while unended([future]):
        check_stopped()
    return future.result()


def unended(futures: Iterable[Future[T]]) -> set[Future[T]]:
    """Wait until the futures have ended, but not for longer than waiting code may. Return those
    that have not.

    A future that an executor cancelled at its shutdown has ended: ``wait`` would never return it.
    """
    left = [each for each in futures if not each.done()]
    return wait(left, POLL_SECONDS).not_done if left else set()


def _stop_handler(what: type[BaseException]) -> Callable[[int, FrameType | None], None]:
    """Return a signal handler that sets the stop flag to an exception."""

    def handler(number: int, frame: FrameType | None) -> None:
        _flag.asked = what

    return handler
