"""What the finalists' round needs of a peer."""

from __future__ import annotations

import os
from importlib.util import find_spec
from math import log2
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from templates.conv1d.workload import Conv1dWorkload
from tuner.measure.kernel import Kernel


class Peer(Protocol):
    """A library's way to compute a workload. ``seconds`` is about what one call takes, told from
    the shape; where that is long, the peer is left out."""

    name: str
    seconds: float

    def prepare(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> Kernel:
        """Ready to be timed on these inputs."""
        ...

    def output(self) -> NDArray[np.float32]:
        """What the prepared call computes."""
        ...


class Broken:
    """A library that is installed and can't be used; trying to says why."""

    seconds = 0.0

    def __init__(self, name: str, error: Exception) -> None:
        self.name, self._error = name, error

    def prepare(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> NoReturn:
        raise self._error

    def output(self) -> NoReturn:
        raise self._error


def installed(library: str) -> bool:
    return find_spec(library) is not None


def host_threads() -> int:
    """As many as a CPU is tuned for: all that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def transform_seconds(workload: Conv1dWorkload, flops_per_second: float) -> float:
    """Three real transforms of the whole signal, 2.5 n log2(n) operations each."""
    size = workload.M + workload.N
    return 7.5 * size * log2(size) / flops_per_second
