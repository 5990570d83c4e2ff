"""The interface of what measures for a job: this machine's device, or a farm of servers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tuner.compare.comparison import Comparison
from tuner.measure.trial import Measured


@dataclass(frozen=True)
class Delivered:
    """A library with the manifest that goes with it."""

    library: Path
    manifest: dict[str, Any]


class Measuring(Protocol):
    """Checks and times libraries of one workload.

    ``max_in_flight`` is how many libraries it takes before it has answered the first.
    ``overlaps_builds`` says whether builds may run while it measures. ``peer_versions`` is what
    the times of its peers depend on; None if they are of no use to another job.
    """

    @property
    def max_in_flight(self) -> int: ...

    @property
    def overlaps_builds(self) -> bool: ...

    @property
    def peer_versions(self) -> dict[str, str] | None: ...

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

    def deliver(self, delivered: Mapping[str, Delivered], groups: Sequence[str] = ()) -> Comparison:
        """The libraries as their users have them, each loaded by a fresh process and checked once
        more: the call, on a CPU the kernel too (:func:`tuner.compare.stage.of` names them), in
        turns with each other and with those groups of peers. One that is wrong there is dropped.
        Raises ChildFailed."""
        ...
