"""How a process that searches is asked to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from db.sql.undisturbed import when_undisturbed

_ASKED = threading.Event()


class Stopped(BaseException):
    """The process was asked to end. Not an Exception: nothing that handles errors may keep it."""


def stop_on_signals() -> None:
    """Let SIGTERM and SIGINT raise Stopped, once: what follows must not be interrupted again."""

    def stop(number: int, frame: FrameType | None) -> None:
        _ASKED.set()
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        when_undisturbed(_raise_stopped)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def check_stopped() -> None:
    """Raises Stopped where the process was asked to end: within a destructor Python swallows what a
    handler raises."""
    if _ASKED.is_set():
        raise Stopped


@contextmanager
def interrupted_between_transactions() -> Iterator[None]:
    """For a search in somebody else's program: Ctrl-C raises KeyboardInterrupt as ever, but not
    within a transaction on SQLite. A program with a handler of its own keeps that."""
    usual = signal.default_int_handler
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not usual
    ):
        yield
        return
    try:
        signal.signal(signal.SIGINT, _interrupt)
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, usual)


def _interrupt(number: int, frame: FrameType | None) -> None:
    when_undisturbed(_raise_interrupt)


def _raise_stopped() -> None:
    raise Stopped


def _raise_interrupt() -> None:
    raise KeyboardInterrupt
