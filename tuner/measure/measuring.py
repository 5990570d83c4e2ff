"""What a job asks of whatever measures for it: the device at hand, or a farm of servers."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from tuner.measure.finals import Finals
from tuner.measure.trial import Measured


class Measuring(Protocol):
    """Checks and times libraries of one workload.

    ``at_once`` is how many it wants before it has answered the first; ``apart`` whether what is
    built meanwhile does not disturb it.
    """

    @property
    def at_once(self) -> int: ...

    @property
    def apart(self) -> bool: ...

    def submit(self, library: Path) -> Future[Measured]:
        """Measure the library when its turn comes. A crash or a hang is a value too."""
        ...

    def finals(self, libraries: dict[str, Path], with_peers: bool = True) -> Finals:
        """:func:`tuner.measure.finals.run_finals` in a process that has run nothing before. Raises
        ChildFailed."""
        ...

    def verify(self, library: Path) -> float:
        """:func:`tuner.measure.finals.verify` in another such process. Raises ChildFailed."""
        ...
