"""``supervise`` starts processes again if they end, and ends all of them together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.tuner.measure.remote import gone
from tuner.device.gpus import among
from tuner.errors import NoDevice

SUPERVISOR = """
import sys
from tuner.worker.supervise import supervise
from tuner.process.stopping import Stopped, stop_on_signals
stop_on_signals()
members = {name: {"MEMBER": name} for name in ("a", "b")}
try:
    supervise(members, [sys.executable, "-c", sys.argv[1]], once=sys.argv[2] == "once")
except Stopped:
    sys.exit(7)
"""
LIVES = "import os, time, pathlib; pathlib.Path(os.environ['MEMBER'] + str(os.getpid())).touch(); "
SLEEPS = LIVES + "time.sleep(600)"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def supervising(program: str, folder: Path, once: bool = False) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in [str(Path.cwd()), *sys.path] if path)
    return subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, program, "once" if once else "always"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def members(folder: Path, name: str, count: int) -> list[int]:
    """Wait until the member has been started ``count`` times; return all its process ids in order
    of their start."""
    deadline = time.monotonic() + 60
    while len(lives := sorted(folder.glob(f"{name}*"), key=os.path.getctime)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [int(life.name.removeprefix(name)) for life in lives]


def test_killed_member_is_started_again_and_all_end_with_the_supervisor(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    supervisor = supervising(SLEEPS, tmp_path)
    started.append(supervisor)
    [a], [b] = members(tmp_path, "a", 1), members(tmp_path, "b", 1)
    psutil.Process(a).kill()
    again = members(tmp_path, "a", 2)[1]
    assert again != a
    assert psutil.Process(b).ppid() == supervisor.pid
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(timeout=60) == 7
    assert gone(again) and gone(b)


def test_members_end_if_the_supervisor_is_killed(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    supervisor = supervising(SLEEPS, tmp_path)
    started.append(supervisor)
    [a], [b] = members(tmp_path, "a", 1), members(tmp_path, "b", 1)
    supervisor.kill()
    assert gone(a) and gone(b)


def test_supervisor_with_once_ends_after_each_member_has_succeeded(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    fails_first = LIVES + "import sys; sys.exit(len(list(pathlib.Path('.').glob('a*'))) == 1)"
    supervisor = supervising(fails_first, tmp_path, once=True)
    started.append(supervisor)
    assert supervisor.wait(timeout=60) == 0
    assert len(members(tmp_path, "a", 1)) >= 1 and len(members(tmp_path, "b", 1)) >= 1
    assert len(list(tmp_path.iterdir())) >= 3


def test_gpu_numbers_count_the_visible_gpus() -> None:
    visible = ["GPU-1", "GPU-2", "7"]
    assert among("all", visible) == visible
    assert among("2, 0", visible) == ["7", "GPU-1"]


@pytest.mark.parametrize("asked", ["3", "-1", "", "0,0", "0,x", "every"])
def test_invalid_gpu_numbers_are_refused(asked: str) -> None:
    with pytest.raises(NoDevice, match="from 0 to 2"):
        among(asked, ["0", "1", "2"])
