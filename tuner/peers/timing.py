"""Choice of the fastest of several calls, and capture of PyTorch's calls in CUDA graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[[], Any]

COPIES = 10
"""Copies of a call in a CUDA graph."""
SAMPLES = 3
SAMPLE_SECONDS = 5e-3
"""A call on a CPU is timed at least SAMPLES times, and for at least SAMPLE_SECONDS in all."""


def captured(call: Call, copies: int, stream: int) -> Call:
    """Return a function that replays ``copies`` copies of the call, captured in a CUDA graph.

    ``stream`` is the address of the CUDA stream on which the graph is captured and replayed."""
    import torch

    ours = torch.cuda.ExternalStream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode():
        # A transform's first call writes its tables on the default stream. A call on our stream
        # does not wait for that, and could read addresses from tables that are not written yet.
        call()
        torch.cuda.synchronize()
        with torch.cuda.stream(ours):
            call()  # its first call on a stream may make objects, which no graph can hold
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=ours):
            for _ in range(copies):
                call()

    def replay() -> None:
        with torch.cuda.stream(ours):
            graph.replay()

    return replay


def fastest(calls: Sequence[Call], kind: str) -> int:
    """Return the index of the fastest call. Each call is timed as in the round: on CUDA in a
    graph."""
    measure = _on_cuda if kind == "cuda" else _on_cpu
    times = [measure(call) for call in calls] if len(calls) > 1 else [0.0]
    return times.index(min(times))


def _on_cpu(call: Call) -> float:
    """Return the least time of a call, in seconds. The first call is not counted."""
    call()
    times: list[float] = []
    while len(times) < SAMPLES or sum(times) < SAMPLE_SECONDS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _on_cuda(call: Call) -> float:
    """Return the least time of COPIES calls in a graph, in ms. The first replay is not counted."""
    import torch

    stream = torch.cuda.Stream()
    replay = captured(call, COPIES, stream.cuda_stream)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times: list[float] = []
    for _ in range(SAMPLES + 1):
        start.record(stream)
        replay()
        stop.record(stream)
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return min(times[1:])
