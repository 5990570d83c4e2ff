"""Timing on a GPU, by graphs of many copies of a kernel that are replayed between two events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tuner.device.cuda import checked
from tuner.measure.clock import Sampler
from tuner.measure.kernel import Kernel

COPIES = 100
"""Most copies of a kernel in a graph."""
SAMPLE_SECONDS = 1e-3
"""Least length of a sample, up to :data:`MOST_REPLAYS` replays."""
MOST_REPLAYS = 10
"""Most replays of a graph in one sample. Starting the first replay takes some tens of microseconds,
which would distort the time of a small kernel if only a hundred copies shared them."""
LEADING_SECONDS = 5e-3
"""A graph that takes less is replayed once more before a sample, uncounted. During that replay the
host starts the counted replays, which takes it some tens of microseconds."""
ROTATED_SETS = 50
"""Limits for the sets of tensors of a cold sample: their number, and their bytes together."""
ROTATED_BYTES = 2**30
WARM_UP_SECONDS = 5e-3
"""How long a graph is replayed before the first sample."""


class CudaClock:
    """The clock of a GPU. Everything that it times runs on its ``stream``.

    A graph takes the host out of the measurement. Back-to-back launches of a kernel that takes less
    than about 4 µs would only measure how fast the host can launch.
    """

    def __init__(self, cache_bytes: int, set_bytes: int) -> None:
        """Create the stream and the events.

        ``cache_bytes`` is the size of the GPU's last cache: three times as many are written to
        flush it. ``set_bytes`` is the size of one set of a workload's tensors. Raises RuntimeError
        if CUDA fails.
        """
        from cuda.bindings import runtime

        self._runtime = runtime
        self.stream = int(checked(runtime.cudaStreamCreateWithFlags(1)))
        self._start = checked(runtime.cudaEventCreate())
        self._stop = checked(runtime.cudaEventCreate())
        self._set_bytes = set_bytes
        self._flush_bytes = 3 * cache_bytes
        self._trash: Any = None

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make TVM launch on this stream."""
        import tvm
        import tvm_ffi

        with tvm_ffi.use_raw_stream(tvm.cuda(0), self.stream):
            yield

    def warm(self, kernel: Kernel, budget_seconds: float) -> Sampler:
        """Return a sampler of a graph of copies of the kernel.

        There are 100 copies, or as many as take ``budget_seconds``. In each sample the graph is
        replayed until a millisecond has passed, at most ten times. If it is short, an uncounted
        replay leads.
        """
        if kernel.graphed is not None:
            single = _Replayed(self, kernel.graphed(1, self.stream), 1)
            single.sample()
            copies = _copies(single.sample(), budget_seconds)
            replay = kernel.graphed(copies, self.stream)
        else:
            once = self.elapsed(lambda: self._eager([kernel.call]))
            copies = _copies(once, budget_seconds)
            graph = self.capture([kernel.call] * copies)
            replay = partial(self._launch, graph)
        first = _Replayed(self, replay, copies)
        first.sample()
        seconds = first.sample() * copies
        for _ in range(math.ceil(WARM_UP_SECONDS / max(seconds, 1e-6))):
            first.sample()
        replays, leading = _replays(seconds), replay if seconds < LEADING_SECONDS else None
        repeated = partial(_repeat, replay, replays)
        return _Replayed(self, repeated, copies * replays, leading, keeps=kernel)

    def cold(self, kernel: Kernel) -> Sampler:
        """Return a sampler of a graph of calls on separate sets of tensors.

        Before each sample the cache is overwritten. Raises ValueError if the kernel can't be called
        on other tensors than its own.
        """
        if kernel.rotated is None:
            raise ValueError("a kernel without its own tensors can't be timed cold")
        sets = max(1, min(ROTATED_SETS, ROTATED_BYTES // self._set_bytes))
        calls = kernel.rotated(sets)
        self._eager(calls)
        graph = self.capture(calls)
        if self._trash is None:
            self._trash = checked(self._runtime.cudaMalloc(self._flush_bytes))
        return _Replayed(self, lambda: self._launch(graph), sets, self._flush, keeps=calls)

    def elapsed(self, work: Callable[[], Any], before: Callable[[], Any] | None = None) -> float:
        """Return the seconds between two events around ``work`` on the stream. ``before`` runs
        first."""
        if before is not None:
            before()
        checked(self._runtime.cudaEventRecord(self._start, self.stream))
        work()
        checked(self._runtime.cudaEventRecord(self._stop, self.stream))
        checked(self._runtime.cudaEventSynchronize(self._stop))
        milliseconds = checked(self._runtime.cudaEventElapsedTime(self._start, self._stop))
        return float(milliseconds) * 1e-3

    def capture(self, calls: Sequence[Callable[[], Any]]) -> Any:
        """Return the calls as an executable graph. The first of them is called once beforehand."""
        mode = self._runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        with self.current():
            calls[0]()  # a first call may load modules or allocate, which can't be captured
            checked(self._runtime.cudaStreamSynchronize(self.stream))
            checked(self._runtime.cudaStreamBeginCapture(self.stream, mode))
            for call in calls:
                call()
            graph = checked(self._runtime.cudaStreamEndCapture(self.stream))
        executable = checked(self._runtime.cudaGraphInstantiate(graph, 0))
        checked(self._runtime.cudaGraphDestroy(graph))
        return executable

    def _eager(self, calls: Sequence[Callable[[], Any]]) -> None:
        """Make the calls on the stream, without a graph."""
        with self.current():
            for call in calls:
                call()

    def _launch(self, graph: Any) -> None:
        checked(self._runtime.cudaGraphLaunch(graph, self.stream))

    def _flush(self) -> None:
        checked(self._runtime.cudaMemsetAsync(self._trash, 0, self._flush_bytes, self.stream))


def _copies(once: float, budget_seconds: float) -> int:
    """Return how many copies of a kernel that takes ``once`` seconds fit the budget, at most
    100."""
    return max(1, min(COPIES, math.floor(budget_seconds / max(once, 1e-7))))


def _replays(seconds: float) -> int:
    """Return how many replays of a graph that takes ``seconds`` a sample needs, at most ten."""
    return max(1, min(MOST_REPLAYS, math.ceil(SAMPLE_SECONDS / max(seconds, 1e-7))))


def _repeat(replay: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        replay()


class _Replayed:
    """A sampler that replays a graph of ``calls`` calls. ``before`` runs ahead of each sample."""

    disturbed = False  # the host's other programs don't change the time between two events

    def __init__(
        self,
        clock: CudaClock,
        replay: Callable[[], Any],
        calls: int,
        before: Callable[[], Any] | None = None,
        keeps: Any = None,
    ) -> None:
        self._clock, self._replay, self._before = clock, replay, before
        self._keeps = keeps  # the tensors that a graph reads and writes must outlive it
        self.calls = calls

    def sample(self) -> float:
        return self._clock.elapsed(self._replay, self._before) / self.calls
