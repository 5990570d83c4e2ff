"""What a signal's handler does waits for the end of what must not be cut."""

import subprocess
import sys
from threading import Thread

import pytest
from sqlalchemy import Engine
from storage_rows import submitted

from db import queue
from db.sql.transaction import one_write, reading, writing
from db.sql.undisturbed import when_undisturbed

CUT = """
import random, signal, sys
from db import queue
from db.sql.engine import open_engine
from db.sql.errors import DatabaseUnavailable
from db.sql.transaction import writing
from db.sql.undisturbed import when_undisturbed

class Cut(BaseException):
    pass

def cut():
    raise Cut

def work():
    while True:
        job = queue.claim(engine, "one", ["cuda"])
        if job is not None:
            queue.release(engine, job.id, job.attempt)

engine, other = (open_engine(sys.argv[1], busy_seconds=0.1) for _ in range(2))
signal.signal(signal.SIGALRM, lambda *_: when_undisturbed(cut))
draw, locked = random.Random(1), 0
for _ in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0003, 0.008))
        work()
    except Cut:
        try:
            with writing(other):
                pass
        except DatabaseUnavailable:
            locked += 1
print(locked)
"""
"""Cuts work on the database at moments by chance, and counts how often it is locked while that
exception is handled."""

WAIT = """
import signal, sys
from db.sql.engine import open_engine
from db.sql.transaction import writing
from db.sql.undisturbed import when_undisturbed

class Cut(BaseException):
    pass

def cut():
    raise Cut

holding, waiting = (open_engine(sys.argv[1]) for _ in range(2))
signal.signal(signal.SIGALRM, lambda *_: when_undisturbed(cut))
with writing(holding):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with writing(waiting):
            print("begun")
    except Cut as raised:
        print("cut", raised.__context__)
"""
"""The holder is in the same thread: nothing but the signal ends the wait."""


class Cut(BaseException):
    pass


def cut() -> None:
    raise Cut


def said(script: str, engine: Engine) -> str:
    command = [sys.executable, "-c", script, engine.url.render_as_string()]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=200
    ).stdout.strip()


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_an_exception_of_a_handler_leaves_nothing_locked(engine: Engine) -> None:
    submitted(engine)
    assert said(CUT, engine) == "0"


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_wait_for_the_lock_is_cut(engine: Engine) -> None:
    """Nothing has begun yet, and nobody has to see it fail after half a minute."""
    assert said(WAIT, engine) == "cut None"


def test_it_waits_for_sqlites_transaction(engine: Engine) -> None:
    within = engine.dialect.name == "sqlite"
    for kind in (writing, reading):
        reached = False
        with pytest.raises(Cut), kind(engine):
            when_undisturbed(cut)
            reached = True
        assert reached is within
    with pytest.raises(Cut):
        when_undisturbed(cut)  # of the last one nothing is left


def test_it_waits_for_a_statement_that_commits_by_itself(engine: Engine) -> None:
    job = submitted(engine)
    with pytest.raises(Cut), one_write(engine) as connection:
        when_undisturbed(cut)
        connection.exec_driver_sql("UPDATE jobs SET error = 'kept'")
    assert queue.get(engine, job.id).error == "kept"


def test_of_several_the_last_is_done_and_an_error_remains_known(engine: Engine) -> None:
    done: list[str] = []
    with pytest.raises(RuntimeError), one_write(engine):
        when_undisturbed(lambda: done.append("first"))
        when_undisturbed(lambda: done.append("last"))
        raise RuntimeError
    assert done == ["last"]
    with pytest.raises(Cut) as raised, one_write(engine):
        when_undisturbed(cut)
        raise RuntimeError
    assert isinstance(raised.value.__context__, RuntimeError)


def test_other_threads_are_none_of_its_business(engine: Engine) -> None:
    done: list[str] = []
    with one_write(engine):
        thread = Thread(target=lambda: when_undisturbed(lambda: done.append("at once")))
        thread.start()
        thread.join()
        assert done == ["at once"]
