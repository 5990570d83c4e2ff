"""The quickest of several ways to do the same, and PyTorch's calls in CUDA graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[[], Any]

COPIES = 10
SAMPLES = 3
SAMPLE_SECONDS = 5e-3


def captured(call: Call, copies: int, stream: int) -> Call:
    """Replays that many copies of the call on a CUDA stream, given by its address."""
    import torch

    ours = torch.cuda.ExternalStream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode():
        # A transform's first call writes its tables on the default stream, for which ours does not
        # wait: it would read addresses from tables that are not there yet.
        call()
        torch.cuda.synchronize()
        with torch.cuda.stream(ours):
            call()  # what is made at a stream's first call can't be captured
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=ours):
            for _ in range(copies):
                call()

    def replay() -> None:
        with torch.cuda.stream(ours):
            graph.replay()

    return replay


def fastest(calls: Sequence[Call], kind: str) -> int:
    """Which of them takes the least time, each measured as it will be in the end: on CUDA in a
    graph."""
    measure = _on_cuda if kind == "cuda" else _on_cpu
    times = [measure(call) for call in calls] if len(calls) > 1 else [0.0]
    return times.index(min(times))


def _on_cpu(call: Call) -> float:
    call()
    times: list[float] = []
    while len(times) < SAMPLES or sum(times) < SAMPLE_SECONDS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _on_cuda(call: Call) -> float:
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
