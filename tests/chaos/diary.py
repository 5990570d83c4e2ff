"""What a process wrote down of what the database confirmed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from db.queue import Job

clock = time.time
"""The host's own, also where a hand's is shifted."""


class Diary:
    """Lines that are on their way to the disk before the next thing is done: what a killed process
    wrote is there."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, event: str, **more: Any) -> None:
        line = {"event": event, "at": clock()} | more
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def of(self, event: str, job: Job, **more: Any) -> None:
        self.write(event, job=job.id, attempt=job.attempt, **more)


def diaries(folder: Path) -> list[dict[str, Any]]:
    """The lines of all, oldest first."""
    lines = []
    for path in folder.glob("diary-*"):
        # the last line of one that was killed may be cut
        whole = path.read_text().split("\n")[:-1]
        lines += [json.loads(line) for line in whole]
    return sorted(lines, key=lambda line: float(line["at"]))
