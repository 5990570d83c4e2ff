"""Time in which a process was stopped, as by Ctrl-Z, does not count as time that its child took."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.tuner.measure import remote
from tuner.process.child import Child

DEADLINE = 3.0
PARENT = f"""
import sys
from pathlib import Path
from tests.tuner.measure import remote
from tuner.process.child import Child

child = Child()
print(child.call(remote.pid, timeout=30), flush=True)
print(child.call(remote.meet, *map(Path, sys.argv[1:]), timeout={DEADLINE}))
child.close()
"""


def until_there(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


@pytest.mark.parametrize("child_is_stopped", [True, False])
def test_time_while_stopped_does_not_count_for_the_deadline(
    tmp_path: Path, *, child_is_stopped: bool
) -> None:
    """The child answers once the file ``asked`` exists. If both processes are stopped, the file is
    made after both go on. If only the parent is stopped, the file is made before the parent goes
    on."""
    begun, asked = tmp_path / "begun", tmp_path / "asked"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(begun), str(asked)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        until_there(begun)
        stopped = [parent.pid, child] if child_is_stopped else [parent.pid]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        if not child_is_stopped:
            asked.touch()
        time.sleep(DEADLINE + 0.5)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.2)  # the parent looks at its deadline first
        asked.touch()
        assert parent.stdout.read() == "True\n"


def test_answer_that_has_arrived_counts_after_the_deadline() -> None:
    child = Child()
    try:
        child.call(remote.pid, timeout=30)
        assert child.call(remote.speak, [], 0.7, timeout=1.0, check=partial(time.sleep, 1.5)) == 1
    finally:
        child.close()
