"""A signal sets the stop flag: every wait sees it, and no transaction is interrupted."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from threading import Thread, Timer

import pytest

from db.sql.engine import open_engine
from tests import databases
from tests.db.storage_rows import submitted
from tests.tuner.measure import remote
from tests.tuner.measure.remote import gone
from tuner.build.builder import Builder
from tuner.process.child import Child
from tuner.process.stopping import (
    Stopped,
    check_stopped,
    interruptible,
    pause,
    stop_on_signals,
    wait_for,
)

LONG = 600.0

SCRIPT = """
import signal, sys
from db.sql.engine import open_engine
from db.sql.transaction import writing
from tuner.process.stopping import check_stopped, interruptible
engine = open_engine(sys.argv[1])
usual = signal.default_int_handler
signal.signal(signal.SIGINT, usual)  # a shell may start what it leaves alone without one
{before}
try:
    with interruptible():
        with writing(engine):
            signal.raise_signal(signal.SIGINT)
            print("whole")
        {look}
        print("not looked")
    print("over")
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGINT) is usual)
"""
OWN = "signal.signal(signal.SIGINT, lambda *_: print('own')); usual = signal.getsignal(2)"

CUT = """
import random, signal, sys
from db import queue
from db.sql.engine import open_engine
from db.sql.errors import DatabaseUnavailable
from db.sql.transaction import writing
from tuner.process.stopping import check_stopped, interruptible

def work():
    global held
    while True:
        held = queue.claim(engine, "one", ["cuda"])
        check_stopped()
        queue.release(engine, held.id, held.attempt)
        held = None
        check_stopped()

engine, other = (open_engine(sys.argv[1], busy_seconds=0.1) for _ in range(2))
signal.signal(signal.SIGINT, signal.default_int_handler)
draw, locked, unknown, held = random.Random(1), 0, 0, None
for _ in range(150):
    try:
        with interruptible():
            signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGINT))
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0003, 0.008))
            work()
    except KeyboardInterrupt:
        try:
            with writing(other):
                pass
        except DatabaseUnavailable:
            locked += 1
        (job,) = queue.list_jobs(other).items
        unknown += (job.state == "running") is not (held is not None)
        if held is not None:
            queue.release(engine, held.id, held.attempt)
print(locked, unknown)
"""
"""A script that interrupts work on the database at random moments. It counts how often the database
is locked while the interruption is handled, and how often the stored state of the job differs from
what the caller of ``claim`` knows."""


def said(script: str, folder: Path) -> list[str]:
    url = f"sqlite:///{folder / 'convtune.db'}"
    command = [sys.executable, "-c", script, url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=200)
    return done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a new database."""
    databases.created(tmp_path / "convtune.db")
    return tmp_path


@pytest.mark.parametrize(
    ("before", "look", "says"),
    [
        ("", "check_stopped()", ["whole", "interrupted", "True"]),
        ("", "", ["whole", "not looked", "interrupted", "True"]),
        (OWN, "check_stopped()", ["own", "whole", "not looked", "over", "True"]),
    ],
    ids=["at the next look", "at the end", "own handler"],
)
def test_ctrl_c_is_raised_at_the_next_check_or_at_the_end(
    folder: Path, before: str, look: str, says: list[str]
) -> None:
    assert said(SCRIPT.format(before=before, look=look), folder) == says


def test_ctrl_c_at_any_moment_leaves_no_lock_and_no_unknown_claim(folder: Path) -> None:
    engine = open_engine(f"sqlite:///{folder / 'convtune.db'}")
    submitted(engine)
    engine.dispose()
    assert said(CUT, folder) == ["0 0"]


@pytest.fixture
def handlers() -> Iterator[None]:
    """Start with Python's handler of SIGINT, and restore this process's handlers after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def soon(handlers: None) -> Iterator[Callable[[], None]]:
    """Return a function that sends SIGTERM to this process after 0.5 s. The process has the stop
    flag's handlers."""
    stop_on_signals()
    timer = Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
    yield timer.start
    timer.join()


@pytest.mark.parametrize(
    "wait",
    [lambda: pause(LONG), lambda: wait_for(Future[None]())],
    ids=["a pause", "another thread's result"],
)
def test_stop_signal_ends_a_wait(soon: Callable[[], None], wait: Callable[[], object]) -> None:
    """A wait ends with Stopped as soon as the signal comes."""
    soon()
    with pytest.raises(Stopped):
        wait()
    check_stopped()  # Stopped is raised once for a signal


def test_stop_signal_ends_a_call_of_a_child_and_the_child(soon: Callable[[], None]) -> None:
    with closing(Child()) as child:
        hanging = child.call(remote.pid, timeout=LONG)
        soon()
        with pytest.raises(Stopped):
            child.call(remote.hang, timeout=LONG)
        assert child.pid is None and gone(hanging)


def test_stopped_is_raised_if_the_signal_ends_the_child_first(soon: Callable[[], None]) -> None:
    """A signal that is sent to all processes may reach a child before this process."""
    with closing(Child()) as child:
        hanging = child.call(remote.pid, timeout=LONG)
        soon()
        Timer(0.1, os.kill, (hanging, signal.SIGTERM)).start()
        with pytest.raises(Stopped):
            child.call(remote.hang, timeout=LONG)


def test_stop_signal_is_seen_between_short_calls(soon: Callable[[], None]) -> None:
    with closing(Child()) as child, pytest.raises(Stopped):
        child.call(remote.pid, timeout=LONG)
        soon()
        while True:
            child.call(remote.pid, timeout=LONG)


def test_stop_signal_is_seen_while_a_child_starts(
    soon: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child's fork server is still importing when the signal comes."""
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(60)")
    monkeypatch.syspath_prepend(tmp_path)
    soon()
    with closing(Child(importing=["slow_to_import"])) as child, pytest.raises(Stopped):
        child.call(remote.pid, timeout=LONG)


def test_stop_signal_is_seen_while_a_builder_works(soon: Callable[[], None]) -> None:
    soon()
    with Builder(1) as builder, pytest.raises(Stopped):
        builder.call(remote.hang, timeout=LONG)


def test_check_of_the_caller_can_end_a_call_of_a_child() -> None:
    class Enough(Exception):
        pass

    looks: list[None] = []

    def look() -> None:
        looks.append(None)
        if len(looks) > 2:
            raise Enough

    with closing(Child()) as child:
        hanging = child.call(remote.pid, timeout=LONG)
        with pytest.raises(Enough):
            child.call(remote.hang, timeout=LONG, check=look)
        assert gone(hanging)


def test_stop_signal_does_not_end_waits_of_other_threads(handlers: None) -> None:
    done: list[str] = []

    def work() -> None:
        pause(0.1)
        done.append("all of it")

    stop_on_signals()
    thread = Thread(target=work)
    signal.raise_signal(signal.SIGTERM)
    thread.start()
    thread.join()
    assert done == ["all of it"]
    with pytest.raises(Stopped):
        check_stopped()


def test_second_ctrl_c_raises_nothing_more(handlers: None) -> None:
    with pytest.raises(KeyboardInterrupt) as raised, interruptible():
        signal.raise_signal(signal.SIGINT)
        try:
            check_stopped()
        finally:
            signal.raise_signal(signal.SIGINT)
    assert raised.value.__context__ is None
    check_stopped()


HANGUP = """
import signal, sys
from tuner.process.stopping import Stopped, check_stopped, stop_on_signals
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
stop_on_signals()
signal.raise_signal(signal.SIGHUP)
try:
    check_stopped()
    print("goes on")
except Stopped:
    print("stopped")
"""


@pytest.mark.parametrize(("before", "said"), [("SIG_DFL", "stopped"), ("SIG_IGN", "goes on")])
def test_closed_terminal_stops_a_process_unless_nohup_keeps_it(before: str, said: str) -> None:
    command = [sys.executable, "-c", HANGUP, before]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == f"{said}\n"
