"""``python -m tuner.worker`` as a process that is killed, stopped, and robbed of its children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
MARK = "CONVTUNE_CHAOS"
"""A variable that a worker hands down to whatever it starts."""
LOG = "log-*"


class RealWorker:
    """Its temporary files lie in ``temporary``, its log in ``log``; ``mark`` is in its environment
    and in its children's."""

    def __init__(self, database_url: str, temporary: Path, log: Path, mark: str) -> None:
        environment = {
            MARK: mark,
            "TMPDIR": str(temporary),
            "TUNER_DATABASE_URL": database_url,
            "TUNER_LOG_FORMAT": "json",
            "TUNER_BUILD_WORKERS": "1",
            "TUNER_POLL_SECONDS": "0.1",
        }
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tuner.worker", "--target", "cpu"],
                cwd=ROOT,
                env=os.environ | environment,
                stdout=file,
                stderr=file,
            )
        self.pid = self._process.pid

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self._log.read_text()

    def at_work(self) -> bool:
        """Whether it has come so far as to take jobs."""
        assert self._process.poll() is None, self.log
        return "worker_started" in self.log

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)

    def stop(self) -> None:
        """Ask it to end, also where it is frozen, and wait."""
        self._process.terminate()
        self.thaw()
        self._process.wait(60)


def marked(mark: str) -> list[int]:
    """The processes that have the mark, whoever their parent is by now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def said(folder: Path) -> list[dict[str, Any]]:
    """What all workers logged, oldest first; the last line of a killed one may be cut."""
    lines = []
    for path in folder.glob(LOG):
        for line in path.read_text().split("\n")[:-1]:
            lines.append(json.loads(line) if line.startswith("{") else {"event": line})
    return sorted(lines, key=lambda line: str(line.get("timestamp", "")))
