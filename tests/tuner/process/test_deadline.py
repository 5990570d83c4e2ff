"""What takes too long is ended, and the process goes on."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from tuner.process.deadline import deadline


def asleep() -> None:
    time.sleep(30)


def compiling() -> None:
    subprocess.run(["sleep", "30"], check=True)


def stubborn() -> None:
    for _ in range(30):
        with contextlib.suppress(Exception):
            time.sleep(1)


@pytest.mark.parametrize("work", [asleep, compiling, stubborn])
def test_what_takes_too_long_is_ended(work: Callable[[], None]) -> None:
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"not done after 0\.2 s"), deadline(0.2):
        work()
    assert time.monotonic() - start < 10


def test_what_is_in_time_hears_nothing_of_it() -> None:
    with deadline(0.2):
        pass
    time.sleep(0.3)


def test_what_fails_before_fails_as_it_did() -> None:
    with pytest.raises(ValueError, match="mine"), deadline(10):
        raise ValueError("mine")


def test_an_alarm_set_before_still_comes() -> None:
    heard: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, _: heard.append(number))
    before, _ = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with deadline(10):
            pass
        time.sleep(0.4)
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, before)
    assert heard == [signal.SIGALRM]
