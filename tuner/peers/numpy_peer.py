"""NumPy, on the host's CPU whatever the device is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from templates.conv1d.workload import Conv1dWorkload
from templates.workload import Workload
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel
from tuner.peers.peer import in_float32

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
        function = partial(getattr(np, workload.kind), mode=workload.mode)
        self._call = in_float32(workload, function)

    def prepare(self, x: Array, w: Array) -> Kernel:
        self._x, self._w = np.array(x), np.array(w)
        return Kernel(call=self.output)

    def output(self) -> Array:
        result: Array = self._call(self._x, self._w)
        return result
