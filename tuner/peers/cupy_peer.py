"""CuPy's convolutions of signals, on a GPU.

Calls are captured in a CUDA graph if possible. A call can't be captured if it waits for the GPU or
does something that a graph can't hold. Such calls are made back to back on the clock's stream,
between its two events. Their name ends in "launched", because the time includes the host's share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from templates.conv1d.workload import Conv1dWorkload
from tuner.measure.cases import Array
from tuner.measure.kernel import Kernel
from tuner.peers.peer import (
    Listing,
    Peer,
    in_float32,
    in_mode_of_first,
    installed,
    transform_seconds,
)

WARM_UP_CALLS = 3
FLOPS_PER_SECOND = {"direct": 2e11, "transform": 1e11}
"""Rough rates. A call's time is estimated from them."""
PLANS = 64
"""How many plans of transforms CuPy keeps."""


def _conv1d(workload: Conv1dWorkload, kind: str) -> Iterator[CupyPeer]:
    alone = workload.is_one_signal and workload.are_apart and not workload.has_epilogue
    known = alone and workload.dtype != "bfloat16"  # CuPy has no bfloat16
    if kind != "cuda" or not known or not installed("cupy"):
        return
    cupy = import_module("cupy")
    if not cupy.cuda.is_available():
        return
    # a plan that is dropped from the cache frees its tables, which a captured graph still reads
    cupy.fft.config.set_plan_cache_size(PLANS)
    signal = import_module("cupyx.scipy.signal")
    correlates = workload.kind == "correlate"
    simple, general = getattr(cupy, workload.kind), getattr(signal, workload.kind)
    transforms = transform_seconds(workload, FLOPS_PER_SECOND["transform"])
    direct = workload.flops / FLOPS_PER_SECOND["direct"]

    def reversing(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, w, mode: function(x, w[::-1] if correlates else w, mode)

    for name, seconds, function in (
        (f"cupy.{workload.kind}", transforms, simple),
        (f"cupyx.{workload.kind} direct", direct, partial(general, method="direct")),
        ("cupyx.fftconvolve", transforms, reversing(signal.fftconvolve)),
        ("cupyx.oaconvolve", transforms, reversing(signal.oaconvolve)),
    ):
        yield CupyPeer(name, seconds, in_float32(workload, in_mode_of_first(workload, function)))


class CupyPeer(Peer):
    """One function of CuPy. After :meth:`kernel`, ``is_captured`` says whether a CUDA graph holds
    it."""

    is_captured = False

    def __init__(self, name: str, seconds: float, function: Callable[[Any, Any], Any]) -> None:
        self.name, self.seconds, self._function = name, seconds, function

    def compile(self, *given: Array) -> None:
        cupy = import_module("cupy")
        x, w = given
        self._x, self._w = cupy.asarray(np.array(x)), cupy.asarray(np.array(w))
        # memory of its own: a graph writes to it later, so nobody else may be given it
        self._pool = cupy.cuda.MemoryPool()
        cupy.cuda.runtime.deviceSynchronize()  # from here on every stream sees the inputs
        self._called_on(cupy.cuda.Stream.null)

    def kernel(self) -> Kernel:
        cupy = import_module("cupy")
        trial = cupy.cuda.Stream(non_blocking=True)
        try:
            self._captured(1, trial)
        except Exception:
            self.name += " launched"
        else:
            self.is_captured = True
        return Kernel(call=self._once, graphed=self._graphed)

    def output(self) -> Array:
        result: Array = self._once().get()
        return result

    def _once(self) -> Any:
        cupy = import_module("cupy")
        with cupy.cuda.using_allocator(self._pool.malloc):
            return self._function(self._x, self._w)

    def _called_on(self, stream: Any) -> None:
        """Make a few calls on the stream. CuPy makes plans, compiles kernels and pools memory in
        them."""
        with stream:
            for _ in range(WARM_UP_CALLS):
                self._once()
        stream.synchronize()

    def _captured(self, copies: int, stream: Any) -> Any:
        """Return a CUDA graph of ``copies`` calls. Raise what CuPy raises if it can't be made."""
        self._called_on(stream)
        with stream:
            stream.begin_capture()
            try:
                for _ in range(copies):
                    self._once()
            except BaseException:
                with suppress(Exception):  # raises the same error again
                    stream.end_capture()
                raise
            return stream.end_capture()

    def _graphed(self, copies: int, stream: int) -> Callable[[], Any]:
        cupy = import_module("cupy")
        ours = cupy.cuda.ExternalStream(stream)
        if self.is_captured:
            graph = self._captured(copies, ours)
            return lambda: graph.launch(ours)
        self._called_on(ours)

        def back_to_back() -> None:
            with ours:
                for _ in range(copies):
                    self._once()

        return back_to_back


BY_OPERATOR: dict[str, Listing] = {"conv1d": _conv1d}
