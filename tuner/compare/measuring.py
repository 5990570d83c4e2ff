"""What a job asks of whatever measures for it: the device at hand, or a farm of servers."""

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

    def compare(
        self, libraries: dict[str, Path], rivals: Collection[str] = (), groups: Sequence[str] = ()
    ) -> Comparison:
        """The comparison round of these libraries, ``empty`` among them, and of those groups of
        peers (:mod:`tuner.peers`), until the first two of the ``rivals`` are told apart. Raises
        ChildFailed."""
        ...

    def deliver(self, delivered: Mapping[str, Delivered], groups: Sequence[str] = ()) -> Comparison:
        """The libraries as their users have them, each loaded by a fresh process and checked once
        more: the call, on a CPU the kernel too (:func:`tuner.compare.stage.of` names them), in
        turns with each other and with those groups of peers. One that is wrong there is dropped.
        Raises ChildFailed."""
        ...
