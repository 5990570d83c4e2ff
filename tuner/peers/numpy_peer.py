"""NumPy's convolution of one signal, on the host's CPU whatever the device is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from templates.conv1d.workload import Conv1dWorkload
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel
from tuner.peers.epilogue import with_numpy_epilogue
from tuner.peers.peer import Listing, Peer, in_float32, in_mode

FLOPS_PER_SECOND = 2e10
"""A rough rate of one CPU core in the direct form."""


class NumpyPeer(Peer):
    """A function of NumPy's arrays, ``call``. Its time is estimated from ``flops``, the number of
    operations that it needs."""

    def __init__(self, name: str, flops: int, call: Callable[..., Any]) -> None:
        self.name, self.seconds, self._call = name, flops / FLOPS_PER_SECOND, call

    def compile(self, *given: Array) -> None:
        self._given = [np.array(array) for array in given]

    def kernel(self) -> Kernel:
        return Kernel(call=self.output)

    def output(self) -> Array:
        result: Array = self._call(*self._given)
        return result


def _conv1d(workload: Conv1dWorkload, kind: str) -> Iterator[NumpyPeer]:
    """Yield ``numpy.convolve`` or ``numpy.correlate``. Both take one signal only."""
    if not (workload.is_one_signal and workload.are_apart):
        return
    function = in_mode(workload, getattr(np, workload.kind))
    call = in_float32(workload, with_numpy_epilogue(workload, function))
    yield NumpyPeer(f"numpy.{workload.kind}", workload.flops, call)


BY_OPERATOR: dict[str, Listing] = {"conv1d": _conv1d}
