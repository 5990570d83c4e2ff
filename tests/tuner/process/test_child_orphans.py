"""A child process ends with its parent, whatever the two are doing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tuner.measure.remote import gone

PARENT = """
import sys
from tests.tuner.measure import remote
from tuner.process.child import Child

child = Child()
child.call(remote.pid, timeout=30)
print(child.pid, flush=True)
if sys.argv[1] == "hang":
    child.call(remote.hang, timeout=600)
if sys.argv[1] == "paused":
    child.pause()
    print("paused", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("doing", ["hang", "idle", "paused"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_child_ends_if_its_parent_is_killed(doing: str, end: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, doing],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if doing == "paused":
            parent.stdout.readline()
        parent.send_signal(end)
        parent.wait(10)
        assert gone(child)
