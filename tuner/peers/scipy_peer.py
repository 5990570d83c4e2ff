"""SciPy's three ways to convolve signals, on the host's CPU whatever the device is.

There are no peers for images: SciPy's functions take one plane and one kernel, and nobody calls
them for each channel of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from templates.conv1d.workload import Conv1dWorkload
from tuner.device.cpu_facts import threads as host_threads
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel
from tuner.peers.epilogue import with_numpy_epilogue
from tuner.peers.numpy_peer import FLOPS_PER_SECOND
from tuner.peers.peer import (
    Listing,
    Peer,
    in_float32,
    in_mode_of_first,
    installed,
    transform_seconds,
)
from tuner.peers.timing import fastest

TRANSFORM_FLOPS_PER_SECOND = 3e9
BLOCKED_FLOPS_PER_SECOND = 1e10
"""Rough rates of one CPU core. A transform of the whole signal does not fit its caches; transforms
of blocks do."""

Call = Callable[..., Any]


def _conv1d(workload: Conv1dWorkload, kind: str) -> Iterator[ScipyPeer]:
    if not installed("scipy"):
        return
    if not (workload.is_one_signal and workload.are_apart):
        yield from _signals(workload)
        return
    from scipy import signal  # imported here, because that takes most of a second

    function = getattr(signal, workload.kind)
    whole = transform_seconds(workload, TRANSFORM_FLOPS_PER_SECOND)
    blocks = transform_seconds(workload, BLOCKED_FLOPS_PER_SECOND)
    for method, seconds in {"direct": workload.flops / FLOPS_PER_SECOND, "fft": whole}.items():
        call = in_mode_of_first(workload, partial(function, method=method))
        finished = in_float32(workload, with_numpy_epilogue(workload, call))
        yield ScipyPeer(f"scipy.{workload.kind} {method}", seconds, finished)

    def overlap_add(x: Array, w: Array, mode: str) -> Any:
        return signal.oaconvolve(x, w[::-1] if workload.kind == "correlate" else w, mode)

    call = in_mode_of_first(workload, overlap_add)
    blocked = in_float32(workload, with_numpy_epilogue(workload, call))
    yield ScipyPeer("scipy.oaconvolve", blocks, blocked, sorted({1, host_threads()}))


def _signals(workload: Conv1dWorkload) -> Iterator[ScipyPeer]:
    """Yield ``oaconvolve`` of all signals and kernels at once. The workload's outputs are a part of
    its full output.

    Yield nothing if an output sums several channels, if there are gates, or if the padding is so
    wide that outputs begin before the full output or end after it."""
    start = workload.span - 1 - workload.left
    if workload.is_dense or workload.gated or min(start, workload.span - 1 - workload.pads[1]) < 0:
        return
    from scipy import signal

    taken = slice(start, start + (workload.length - 1) * workload.stride + 1, workload.stride)
    B, C, several = workload.B, workload.C, workload.multiplier

    def convolve(x: Array, w: Array) -> Any:
        x = x.swapaxes(1, 2) if workload.layout == "NWC" else x
        kernels = np.zeros((1, C, several, workload.span), x.dtype)
        taps = w.reshape(C, several, workload.N)
        taps = taps[..., ::-1] if workload.kind == "correlate" else taps
        kernels[0, ..., :: workload.dilation] = taps
        y = signal.oaconvolve(x.reshape(B, C, 1, workload.M), kernels, axes=-1)
        y = y[..., taken].reshape(B, C * several, workload.length)
        if workload.layout == "NWC":
            y = y.swapaxes(1, 2)
        return np.ascontiguousarray(y).reshape(workload.output.shape)

    seconds = B * C * several * transform_seconds(workload, BLOCKED_FLOPS_PER_SECOND)
    call = in_float32(workload, with_numpy_epilogue(workload, convolve))
    yield ScipyPeer("scipy.oaconvolve", seconds, call, sorted({1, host_threads()}))


class ScipyPeer(Peer):
    """One function of ``scipy.signal``. A batch of transforms is spread over ``workers`` threads:
    the fastest of the numbers in ``choice``. For a short signal that is one thread."""

    workers: int

    def __init__(self, name: str, seconds: float, call: Call, choice: Sequence[int] = (1,)) -> None:
        self.name, self.seconds, self._call, self._choice = name, seconds, call, choice

    def compile(self, *given: Array) -> None:
        self._given = [np.array(array) for array in given]

    def kernel(self) -> Kernel:
        calls = [partial(self._spread, workers) for workers in self._choice]
        self.workers = self._choice[fastest(calls, "cpu")]
        return Kernel(call=self.output)

    def output(self) -> Array:
        return self._spread(self.workers)

    def _spread(self, workers: int) -> Array:
        from scipy import fft

        with fft.set_workers(workers):
            result: Array = self._call(*self._given)
        return result


BY_OPERATOR: dict[str, Listing] = {"conv1d": _conv1d}
