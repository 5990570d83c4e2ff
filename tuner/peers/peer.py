"""What the finalists' round needs of a peer."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.measure.kernel import Kernel


class Peer(Protocol):
    """A library's way to compute a workload."""

    name: str

    def prepare(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> Kernel:
        """Ready to be timed on these inputs."""
        ...

    def output(self) -> NDArray[np.float32]:
        """What the prepared call computes."""
        ...
