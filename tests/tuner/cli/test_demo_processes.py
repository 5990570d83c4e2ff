"""``tuner demo`` ends all its processes, also those that ignore SIGTERM."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.cli import demo

DEAF = """#!/bin/sh
trap '' TERM
touch "ready-$$"
while :; do sleep 0.1; done
"""


def test_demo_kills_processes_that_ignore_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = tmp_path / "deaf"
    deaf.write_text(DEAF)
    deaf.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(deaf))
    monkeypatch.setattr(demo, "STOP_SECONDS", 0.2, raising=False)
    started: list[subprocess.Popen[bytes]] = []
    try:
        with demo.running(tmp_path, 0, "cpu") as processes:
            started.extend(processes)
            deadline = time.monotonic() + 20
            while len(list(tmp_path.glob("ready-*"))) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert [process.poll() for process in started] == [-9, -9]
    finally:
        for process in started:
            process.kill()
            process.wait()
