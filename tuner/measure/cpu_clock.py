"""Time on a CPU: TVM's loop around a compiled function, the interpreter's clock around others."""

from __future__ import annotations

import math
import time
from typing import Any

from tuner.measure.clock import Sampler
from tuner.measure.kernel import Kernel

SAMPLE_SECONDS = 1e-3
MAX_CALLS = 10_000
PAUSE_SECONDS = 20e-3
"""Before another's turn: the threads of OpenMP spin for about 10 ms after their work, on the cores
that the next one needs."""


class CpuClock:
    """``cache_bytes`` is the last cache of the CPU: cold calls are made after writing thrice as
    much."""

    def __init__(self, cache_bytes: int) -> None:
        self._flush_bytes = 3 * cache_bytes
        self._latest: Kernel | None = None

    def warm(self, kernel: Kernel, budget_seconds: float) -> Sampler:
        """Each sample is a loop of about a millisecond, shorter where the budget is."""
        self.turn(kernel)
        once = _interpreted(kernel, 1)
        span = min(SAMPLE_SECONDS, budget_seconds)
        calls = min(MAX_CALLS, max(1, math.ceil(span / once)))
        return _Looped(self, kernel, calls)

    def cold(self, kernel: Kernel) -> Sampler:
        return _Flushed(kernel, self._flush_bytes)

    def turn(self, kernel: Kernel) -> None:
        """Where another was timed before, let its threads come to rest and wake this one's."""
        if kernel is not self._latest:
            time.sleep(PAUSE_SECONDS)
            kernel.call()
        self._latest = kernel


class _Looped:
    def __init__(self, clock: CpuClock, kernel: Kernel, calls: int) -> None:
        self._clock, self._kernel = clock, kernel
        self.calls = calls

    def sample(self) -> float:
        self._clock.turn(self._kernel)
        if self._kernel.evaluator is None:
            return _interpreted(self._kernel, self.calls)
        return float(self._kernel.evaluator(number=self.calls, repeat=1)[0])


class _Flushed:
    calls = 1

    def __init__(self, kernel: Kernel, flush_bytes: int) -> None:
        import numpy as np

        self._kernel = kernel
        self._trash = np.zeros(flush_bytes, np.uint8)

    def sample(self) -> float:
        self._trash += 1
        return _interpreted(self._kernel, 1)


def _interpreted(kernel: Kernel, calls: int) -> float:
    call: Any = kernel.call
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls
