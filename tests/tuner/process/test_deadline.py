"""A call that takes too long is ended at its deadline, and the process goes on."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import tuner.process.deadline as module
from tuner.process.deadline import call_within


def asleep() -> None:
    time.sleep(30)


def compiling() -> None:
    subprocess.run(["sleep", "30"], check=True)


def stubborn() -> None:
    """Ignore every Exception for 30 s; the deadline must end it nevertheless."""
    for _ in range(30):
        with contextlib.suppress(Exception):
            time.sleep(1)


@pytest.mark.parametrize("work", [asleep, compiling, stubborn])
def test_call_that_takes_too_long_raises_a_timeout(work: Callable[[], None]) -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"not done after 0\.2 s"):
        call_within(0.2, work)
    assert time.monotonic() - start < 10


def test_call_in_time_returns_and_gets_no_alarm_later() -> None:
    assert call_within(0.2, lambda: "done") == "done"
    time.sleep(0.3)


def test_error_before_the_deadline_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError):
        call_within(10, lambda: 1 / 0)


def test_alarm_set_before_the_call_still_comes() -> None:
    heard: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, _: heard.append(number))
    before, _ = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        call_within(10, lambda: None)
        time.sleep(0.4)
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, before)
    assert heard == [signal.SIGALRM]


def test_time_of_an_inner_deadline_counts_for_the_outer_one() -> None:
    def outer() -> float:
        call_within(50, lambda: time.sleep(0.2))
        return signal.getitimer(signal.ITIMER_REAL)[0]

    assert call_within(100, outer) <= 99.8


def test_outer_deadline_that_passes_in_an_inner_call_ends_the_outer_call() -> None:
    def outer() -> None:
        call_within(50, lambda: time.sleep(0.3))
        asleep()

    with pytest.raises(TimeoutError, match=r"not done after 0\.1 s"):
        call_within(0.1, outer)


def test_alarm_at_any_line_leaves_handler_and_timer_restored() -> None:
    before, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    handler = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    tracing = sys.gettrace()
    lines = 0

    def traced(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line" and signal.getitimer(signal.ITIMER_REAL)[0] > 0:
            lines += 1
            if lines == rings_at:
                signal.raise_signal(signal.SIGALRM)
        return traced

    try:
        for rings_at in range(1, 100):
            lines = 0
            sys.settrace(traced)
            try:
                with contextlib.suppress(TimeoutError):
                    call_within(30, lambda: None)
            finally:
                sys.settrace(tracing)
            assert signal.getsignal(signal.SIGALRM) == signal.SIG_IGN
            assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
            if lines < rings_at:
                break
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, before)
    assert rings_at > 2
