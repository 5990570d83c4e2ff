"""Ids of a job's events. An id says all that is needed to continue the stream after its event."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from api.problems.problems import Problem

NO_PROGRESS = "0" * 8
_ID = re.compile(r"(\d{1,9})\.([01])\.(\d{1,9})\.([0-9a-f]{8})", re.ASCII)
PATTERN = f"^({_ID.pattern})?$"
"""The pattern of the Last-Event-ID header in OpenAPI. An empty header counts as no header."""


@dataclass(frozen=True)
class EventId:
    """The events that a listener was sent so far, written as in ``17.1.2.8c736521``."""

    trial: int = 0  # the number of the last trial
    best_sent: bool = True  # whether its ``best`` event was sent, too; True if it has none
    stage: int = 0  # of the last state, as Snapshot.stage counts them
    progress: str = NO_PROGRESS  # the CRC-32 of the last progress

    def __str__(self) -> str:
        return f"{self.trial}.{int(self.best_sent)}.{self.stage}.{self.progress}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the place that an event id names. Raise Problem if it is not well formed."""
        found = _ID.fullmatch(text)
        if found is None or found[0].startswith("0.0."):  # before the first trial no best is due
            raise Problem(
                "invalid-event-id",
                f"Last-Event-ID must be the id of an event of this stream, such as {cls()}, but is "
                f"{text[:60]!r}; leave it out to start from the first event",
            )
        trial, best_sent, stage, progress = found.groups()
        return cls(int(trial), best_sent == "1", int(stage), progress)
