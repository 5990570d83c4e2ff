"""An engine that was used before its process was forked."""

import subprocess
import sys

import pytest

COMMON = """
import os, sys, threading
from sqlalchemy import text
from db.sql.engine import open_engine, reading, writing
from db.sql.errors import DatabaseUnavailable

engine = open_engine(sys.argv[1], busy_seconds=2)
def run(statement):
    with writing(engine) as connection:
        connection.execute(text(statement))

def rows():
    with reading(engine) as connection:
        return sorted(connection.execute(text("SELECT n FROM numbers")).scalars())

run("CREATE TABLE numbers (n INTEGER)")
"""
USED_BY_BOTH = """
(told, tell), (heard, answer) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    run("INSERT INTO numbers VALUES (1)")
    os.write(tell, b"1")
    os.read(heard, 1)
    run("INSERT INTO numbers VALUES (2)")
    os._exit(rows() != [1, 2])
os.read(told, 1)
engine.dispose()
os.write(answer, b"1")
assert os.waitpid(child, 0)[1] == 0
print(rows())
run("DROP TABLE numbers")
"""
IN_USE = """
inside, go_on = threading.Event(), threading.Event()

def write():
    with writing(engine) as connection:
        connection.execute(text("INSERT INTO numbers VALUES (1)"))
        inside.set()
        go_on.wait()

thread = threading.Thread(target=write)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    try:
        run("INSERT INTO numbers VALUES (2)")
    except DatabaseUnavailable as error:
        print(error, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
go_on.set()
thread.join()
child = os.fork()
if child == 0:
    run("INSERT INTO numbers VALUES (3)")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(rows())
"""


def output(script: str, url: str) -> str:
    command = [sys.executable, "-c", COMMON + script, url]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_parent_and_forked_child_keep_what_each_writes(url: str) -> None:
    """The parent closes its connections before the child's last write. With SQLite's locks of the
    parent, the child would write to files that were deleted."""
    assert output(USED_BY_BOTH, url) == "[1, 2]\n"


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_child_forked_while_a_thread_uses_sqlite_is_refused(url: str) -> None:
    said, kept = output(IN_USE, url).splitlines()
    assert "was forked while another thread used the database" in said
    assert kept == "[1, 3]"
