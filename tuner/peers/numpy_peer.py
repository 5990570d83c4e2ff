"""NumPy, on the host's CPU whatever the device is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from templates.conv1d.workload import Conv1dWorkload
from templates.workload import Workload
from tuner.measure.kernel import Kernel

FLOPS_PER_SECOND = 2e10
"""Of one CPU core in the direct form, about."""


def peers(workload: Workload, kind: str) -> Iterator[NumpyPeer]:
    if isinstance(workload, Conv1dWorkload):
        yield NumpyPeer(workload)


class NumpyPeer:
    """``numpy.convolve`` or ``numpy.correlate``."""

    def __init__(self, workload: Conv1dWorkload) -> None:
        self.name = f"numpy.{workload.kind}"
        self.seconds = workload.flops / FLOPS_PER_SECOND
        self._function = getattr(np, workload.kind)
        self._mode = workload.mode

    def prepare(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> Kernel:
        self._x, self._w = np.array(x), np.array(w)
        return Kernel(call=self.output)

    def output(self) -> NDArray[np.float32]:
        result: NDArray[np.float32] = self._function(self._x, self._w, self._mode)
        return result
