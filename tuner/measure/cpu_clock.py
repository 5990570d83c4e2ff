"""Time on a CPU, by TVM's loop for compiled functions and the interpreter's clock for others."""

from __future__ import annotations

import math
import resource
import threading
import time
from pathlib import Path
from typing import Any

from tuner.measure.clock import Sampler
from tuner.measure.kernel import Kernel

SAMPLE_SECONDS = 10e-3
WAKE_SECONDS = 3e-3
"""Seconds of calls before a kernel's turn: they wake its threads and load its data."""
MAX_CALLS = 10_000
REST_SECONDS, MOST_REST_SECONDS = 1e-3, 20e-3
"""Before the next turn: OpenMP's threads spin for milliseconds after their work, on cores that the
next kernel needs. The first is the pause between two looks at them, the second the longest wait."""
TASKS = Path("/proc/self/task")


class CpuClock:
    """``cache_bytes`` is the size of the CPU's last cache. Three times as much is written before
    each cold call."""

    def __init__(self, cache_bytes: int) -> None:
        self._flush_bytes = 3 * cache_bytes
        self._trash: Any = None
        self._latest: Kernel | None = None

    def warm(self, kernel: Kernel, budget_seconds: float) -> Sampler:
        """Each sample is a loop of about ten milliseconds, or of the budget if that is shorter."""
        self.turn(kernel)
        once = _interpreted(kernel, 1)
        span = min(SAMPLE_SECONDS, budget_seconds)
        calls = min(MAX_CALLS, max(1, math.ceil(span / once)))
        return _Looped(self, kernel, calls)

    def cold(self, kernel: Kernel) -> Sampler:
        return _Flushed(self, kernel)

    def flush(self) -> None:
        """Fill the caches with something else."""
        import numpy as np

        if self._trash is None:
            self._trash = np.zeros(self._flush_bytes, np.uint8)
        self._trash += 1

    def turn(self, kernel: Kernel) -> None:
        """If another kernel was timed before, wait for its threads to stop and wake this one's."""
        if kernel is not self._latest:
            rest()
            _wake(kernel)
        self._latest = kernel


class _Looped:
    def __init__(self, clock: CpuClock, kernel: Kernel, calls: int) -> None:
        self._clock, self._kernel = clock, kernel
        self.calls, self.disturbed = calls, False

    def sample(self) -> float:
        self._clock.turn(self._kernel)
        before = _interruptions()
        seconds = self._timed()
        self.disturbed = _interruptions() > before
        return seconds

    def _timed(self) -> float:
        if self._kernel.evaluator is None:
            return _interpreted(self._kernel, self.calls)
        return float(self._kernel.evaluator(number=self.calls, repeat=1)[0])


class _Flushed:
    calls = 1

    def __init__(self, clock: CpuClock, kernel: Kernel) -> None:
        self._clock, self._kernel, self.disturbed = clock, kernel, False

    def sample(self) -> float:
        self._clock.flush()
        before = _interruptions()
        seconds = _interpreted(self._kernel, 1)
        self.disturbed = _interruptions() > before
        return seconds


def rest() -> None:
    """Wait until no other thread of this process runs on."""
    end = time.perf_counter() + MOST_REST_SECONDS
    while time.perf_counter() < end:
        time.sleep(REST_SECONDS)
        if not others_run():
            return


def others_run() -> bool:
    """Whether another thread of this process runs or waits for a core; yes if the system does not
    say. The process's own CPU time can't tell: Linux updates that of running threads every 4 ms."""
    if not TASKS.exists():
        return True
    own = str(threading.get_native_id())
    return any(_state(task) == "R" for task in TASKS.iterdir() if task.name != own)


def _wake(kernel: Kernel) -> None:
    end = time.perf_counter() + WAKE_SECONDS
    kernel.call()
    while time.perf_counter() < end:
        kernel.call()


def _interruptions() -> int:
    """How often the system has preempted a thread of this process in favour of others."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _state(task: Path) -> str:
    """As in proc(5), where the thread's name, in parentheses, comes first."""
    try:
        return (task / "stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""  # it has just ended


def _interpreted(kernel: Kernel, calls: int) -> float:
    call: Any = kernel.call
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls
