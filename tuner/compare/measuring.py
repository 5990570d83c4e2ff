"""The interface of what measures for a job: a device on this machine, or a farm of servers."""

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
    """A library, and its manifest as a JSON object."""

    library: Path
    manifest: dict[str, Any]


class Measuring(Protocol):
    """Something that checks and times the libraries of one workload.

    ``max_in_flight`` is how many libraries may be submitted before the first is measured.
    ``overlaps_builds`` says whether builds may run during measurements. ``peer_versions`` is
    everything that the times of the peers depend on; None if another job must not use these times.
    """

    @property
    def max_in_flight(self) -> int: ...

    @property
    def overlaps_builds(self) -> bool: ...

    @property
    def peer_versions(self) -> dict[str, str] | None: ...

    def submit(self, library: Path) -> Future[Measured]:
        """Queue a library to be checked and timed. A crash or a hang is a result, not an
        exception."""
        ...

    def compare(
        self,
        libraries: dict[str, Path],
        finalists: Collection[str] = (),
        groups: Sequence[str] = (),
    ) -> Comparison:
        """Time these libraries, by name, and these groups of peers in a round; return its results.

        ``libraries`` must have the empty program, named ``empty``. The groups are those of
        :mod:`tuner.peers`. The round lasts until it is settled which of the ``finalists`` is
        fastest. Raises ChildFailed.
        """
        ...

    def deliver(self, delivered: Mapping[str, Delivered], groups: Sequence[str] = ()) -> Comparison:
        """Time libraries as users call them, and these groups of peers, in a round; return its
        results.

        A fresh process loads each library and checks it once more. If it is wrong there, it is
        dropped. Its call is timed and, on a CPU, its kernel, too. The names of these subjects are
        given by :func:`tuner.compare.stage.subject_name`. Raises ChildFailed.
        """
        ...
