"""Diaries: files in which a hand notes what the database has confirmed to it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from db.queue import Job

clock = time.time
"""The host's clock, taken before :mod:`tests.chaos.wrong_clock` can move the clock of a hand."""


class Diary:
    """A file of JSON lines, each written with one system call and not buffered.

    So all that a process noted before it was killed is in the file.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, event: str, **more: Any) -> None:
        line = {"event": event, "at": clock()} | more
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def of(self, event: str, job: Job, **more: Any) -> None:
        self.write(event, job=job.id, attempt=job.attempt, **more)


def diaries(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all diaries in the folder, oldest first."""
    lines = []
    for path in folder.glob("diary-*"):
        # a killed hand's last line may be cut off
        whole = path.read_text().split("\n")[:-1]
        lines += [json.loads(line) for line in whole]
    return sorted(lines, key=lambda line: float(line["at"]))
