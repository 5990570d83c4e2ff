"""Timing on a CPU, by TVM's loop for compiled functions and by Python's clock for other calls."""

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
"""Length of a warm sample, unless the budget is shorter."""
WAKE_SECONDS = 3e-3
"""Seconds of calls before a kernel's turn, which wake its threads and load its data."""
MAX_CALLS = 10_000
"""Most calls in a sample."""
REST_SECONDS, MOST_REST_SECONDS = 1e-3, 20e-3
"""The pause between two checks of a process's threads, and the longest wait for them to stop.
OpenMP's threads spin for milliseconds after their work, on cores that the next kernel needs."""
TASKS = Path("/proc/self/task")
"""Folder with an entry for each thread of this process."""


class CpuClock:
    """The clock of a CPU whose last cache has ``cache_bytes`` bytes.

    Before each cold call it writes three times as many bytes to flush the caches.
    """

    def __init__(self, cache_bytes: int) -> None:
        self._flush_bytes = 3 * cache_bytes
        self._trash: Any = None
        self._latest: Kernel | None = None

    def warm(self, kernel: Kernel, budget_seconds: float) -> Sampler:
        """Return a sampler of the kernel in a loop.

        A sample takes about ten milliseconds, or ``budget_seconds`` if that is shorter.
        """
        self.turn(kernel)
        once = _interpreted(kernel, 1)
        span = min(SAMPLE_SECONDS, budget_seconds)
        calls = min(MAX_CALLS, max(1, math.ceil(span / once)))
        return _Looped(self, kernel, calls)

    def cold(self, kernel: Kernel) -> Sampler:
        """Return a sampler of single calls, each after a flush of the caches."""
        return _Flushed(self, kernel)

    def flush(self) -> None:
        """Flush the caches by writing other data."""
        import numpy as np

        if self._trash is None:
            self._trash = np.zeros(self._flush_bytes, np.uint8)
        self._trash += 1

    def turn(self, kernel: Kernel) -> None:
        """Prepare for timing this kernel, unless it is the one that was timed last.

        Wait until the threads of the previous kernel stop, and wake the threads of this one.
        """
        if kernel is not self._latest:
            rest()
            _wake(kernel)
        self._latest = kernel


class _Looped:
    """A sampler of a loop of calls."""

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
    """A sampler of one call after a flush of the caches."""

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
    """Wait until no other thread of this process runs, at most :data:`MOST_REST_SECONDS`."""
    end = time.perf_counter() + MOST_REST_SECONDS
    while time.perf_counter() < end:
        time.sleep(REST_SECONDS)
        if not others_run():
            return


def others_run() -> bool:
    """Return whether another thread of this process runs or waits for a core.

    Return True if the system does not tell. The CPU time of the process can't be used, because
    Linux updates it only every 4 ms for threads that run.
    """
    if not TASKS.exists():
        return True
    own = str(threading.get_native_id())
    return any(_state(task) == "R" for task in TASKS.iterdir() if task.name != own)


def _wake(kernel: Kernel) -> None:
    """Call the kernel for :data:`WAKE_SECONDS`, and at least once."""
    end = time.perf_counter() + WAKE_SECONDS
    kernel.call()
    while time.perf_counter() < end:
        kernel.call()


def _interruptions() -> int:
    """Return how often the system has preempted a thread of this process in favour of others."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _state(task: Path) -> str:
    """Return the state letter of a thread, such as R; "" if the thread has ended.

    In proc(5) it follows the thread's name, which is in parentheses.
    """
    try:
        return (task / "stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def _interpreted(kernel: Kernel, calls: int) -> float:
    """Return the seconds of one call, the mean of a loop in Python."""
    call: Any = kernel.call
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls
