"""Where a listener to a job is: the id of the last event it was sent, which says all that is needed
to go on after it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from api.problems.problems import Problem

NO_PROGRESS = "0" * 8
_ID = re.compile(r"(\d{1,9})\.([01])\.(\d{1,9})\.([0-9a-f]{8})", re.ASCII)
PATTERN = f"^({_ID.pattern})?$"
"""Of the header, for the OpenAPI document; an empty one says nothing."""


@dataclass(frozen=True)
class EventId:
    """``17.1.2.8c736521``: trials up to number 17, whether it was said if the last of them was a
    best, states up to the second, and the checksum of the last progress."""

    trial: int = 0
    judged: bool = True
    stage: int = 0
    progress: str = NO_PROGRESS

    def __str__(self) -> str:
        return f"{self.trial}.{int(self.judged)}.{self.stage}.{self.progress}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises Problem."""
        found = _ID.fullmatch(text)
        if found is None or found[0].startswith("0.0."):  # without a trial there is none to judge
            raise Problem(
                "invalid-event-id",
                f"Last-Event-ID must be the id of an event of this stream, as {cls()} is, but is "
                f"{text[:60]!r}; leave it out to start from the first event",
            )
        trial, judged, stage, progress = found.groups()
        return cls(int(trial), judged == "1", int(stage), progress)
