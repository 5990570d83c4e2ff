"""The interface of what measures for a job: this machine's device, or a farm of servers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from tuner.compare.comparison import Comparison
from tuner.measure.trial import Measured


class Measuring(Protocol):
    """Checks and times libraries of one workload.

    ``max_in_flight`` is how many libraries it takes before it has answered the first.
    ``overlaps_builds`` says whether builds may run while it measures.
    """

    @property
    def max_in_flight(self) -> int: ...

    @property
    def overlaps_builds(self) -> bool: ...

    def submit(self, library: Path) -> Future[Measured]:
        """Queue a library to be measured. A crash or a hang is a result, not an exception."""
        ...

    def compare(
        self, libraries: dict[str, Path], rivals: Collection[str] = (), groups: Sequence[str] = ()
    ) -> Comparison:
        """The comparison round of these libraries, ``empty`` among them, and of those groups of
        peers (:mod:`tuner.peers`), until the first two of the ``rivals`` are told apart. Raises
        ChildFailed."""
        ...

    def deliver(
        self, library: Path, manifest: dict[str, Any], groups: Sequence[str] = ()
    ) -> Comparison:
        """The library as its user has it, loaded by a fresh process and checked once more: its
        ``call``, on a CPU its ``kernel`` too, in turns with those groups of peers. Raises
        ChildFailed."""
        ...
