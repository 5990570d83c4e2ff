"""Ctrl-C in somebody else's program."""

import subprocess
import sys
from pathlib import Path

import pytest

from db.sql.engine import migrate, open_engine

SCRIPT = """
import signal, sys
from db.sql.engine import open_engine
from db.sql.transaction import writing
from tuner.process.stopping import interrupted_between_transactions
engine = open_engine(sys.argv[1])
usual = signal.default_int_handler
signal.signal(signal.SIGINT, usual)  # a shell may start what it leaves alone without one
{before}
try:
    with interrupted_between_transactions():
        with writing(engine):
            signal.raise_signal(signal.SIGINT)
            print("whole")
        print("not reached")
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGINT) is usual)
"""
OWN = "signal.signal(signal.SIGINT, lambda *_: print('own')); usual = signal.getsignal(2)"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", ["whole", "interrupted", "True"]),
        (OWN, ["own", "whole", "not reached", "True"]),
    ],
    ids=["usual", "own handler"],
)
def test_it_comes_between_transactions(tmp_path: Path, before: str, said: list[str]) -> None:
    url = f"sqlite:///{tmp_path / 'convtune.db'}"
    engine = open_engine(url)
    migrate(engine)
    engine.dispose()
    command = [sys.executable, "-c", SCRIPT.format(before=before), url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == said
