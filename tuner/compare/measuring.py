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
        self,
        libraries: dict[str, Path],
        finalists: Collection[str] = (),
        groups: Sequence[str] = (),
    ) -> Comparison:
        """The round of these libraries, ``empty`` among them, and of those groups of peers
        (:mod:`tuner.peers`), until it is settled which of the ``finalists`` is fastest. Raises
        ChildFailed."""
        ...

    def deliver(
        self, library: Path, manifest: dict[str, Any], groups: Sequence[str] = ()
    ) -> Comparison:
        """The round of one library as a user has it, loaded and checked by a fresh process, and of
        those groups of peers. Its subjects are ``call`` and, on a CPU, ``kernel``. Raises
        ChildFailed."""
        ...
