"""The ways to run a network that are compared, and their times in turns."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn

TURNS = 20
SAMPLE_SECONDS = 0.02
WARM_UP_CALLS = 5

Call = Callable[[], Any]


def compiled(model: nn.Module, how: str) -> Any:
    """The model as ``torch.compile`` makes it: by default, frozen, with its weights as constants,
    or with max-autotune. CUDA graphs are left to :func:`ready`, which captures every way alike."""
    mode = "max-autotune-no-cudagraphs" if how == "max-autotune" else None
    options: dict[str, Any] | None = {"freezing": True} if how == "frozen" else None
    return torch.compile(model, mode=mode, options=options, fullgraph=True, dynamic=False)


def ready(call: Call, device: str) -> Call:
    """The call, warm; on a GPU captured in a CUDA graph, which is replayed."""
    with torch.inference_mode():
        if device == "cpu":
            for _ in range(WARM_UP_CALLS):
                call()
            return call
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_CALLS):
                call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            call()
    return _Replay(graph, call)


@dataclass
class _Replay:
    """``call`` keeps what the graph reads: the network and its input."""

    graph: torch.cuda.CUDAGraph
    call: Call

    def __call__(self) -> None:
        self.graph.replay()


def in_turns(calls: Mapping[str, Call], device: str) -> dict[str, float]:
    """Each call's milliseconds: the median of samples that are taken in turns."""
    measure = on_cuda if device == "cuda" else on_cpu
    with torch.inference_mode():
        often = {
            name: max(1, round(SAMPLE_SECONDS / max(measure(call, 1), 1e-6)))
            for name, call in calls.items()
        }
        samples: dict[str, list[float]] = {name: [] for name in calls}
        gc.collect()
        for _ in range(TURNS):
            for name, call in calls.items():
                samples[name].append(measure(call, often[name]))
    return {name: 1e3 * median(taken) for name, taken in samples.items()}


def on_cpu(call: Call, count: int) -> float:
    """Seconds of a call, of so many in a row."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def on_cuda(call: Call, count: int) -> float:
    """The same, by the device's clock, while it is never idle before one."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()  # so that the device is busy when the first event is recorded
    start.record()
    for _ in range(count):
        call()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) * 1e-3 / count
