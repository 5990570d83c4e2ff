"""A ``python -m tuner.worker`` process that a storm kills, stops and robs of its children."""

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
"""Environment variable that a worker passes on to every process that it starts."""
LOG = "log-*"


class RealWorker:
    """A worker process for CPU jobs.

    Its temporary files lie in ``temporary`` and its log in ``log``. Its environment and its
    children's have ``mark``, by which :func:`marked` finds them.
    """

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
        """The text of the log so far."""
        return self._log.read_text()

    def at_work(self) -> bool:
        """Return whether the worker has started and takes jobs. It must not have ended."""
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
        """Ask the worker to end, thaw it in case it is frozen, and wait for its end."""
        self._process.terminate()
        self.thaw()
        self._process.wait(60)


def marked(mark: str) -> list[int]:
    """Return the pids of living processes that have the mark, whoever their parent is by now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def said(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all workers' logs in the folder, oldest first.

    Text after the last newline of a log is left out: a killed worker was still writing that line. A
    line that is not JSON becomes an event without a time.
    """
    lines = []
    for path in folder.glob(LOG):
        for line in path.read_text().split("\n")[:-1]:
            lines.append(json.loads(line) if line.startswith("{") else {"event": line})
    return sorted(lines, key=lambda line: str(line.get("timestamp", "")))
