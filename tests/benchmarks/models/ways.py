"""The ways to run a network that are compared, and functions that time them in turns."""

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
    """Return a model compiled by ``torch.compile``.

    ``how`` is "compiled", "frozen" (with weights as constants) or "max-autotune". None of them
    makes CUDA graphs, because :func:`ready` captures every way in the same manner.
    """
    mode = "max-autotune-no-cudagraphs" if how == "max-autotune" else None
    options: dict[str, Any] | None = {"freezing": True} if how == "frozen" else None
    return torch.compile(model, mode=mode, options=options, fullgraph=True, dynamic=False)


def ready(call: Call, device: str) -> Call:
    """Warm up a call and return it. On a GPU, return the replay of a CUDA graph of the call."""
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
    """The replay of a CUDA graph. The graph reads the network and its input, which ``call`` keeps
    alive."""

    graph: torch.cuda.CUDAGraph
    call: Call

    def __call__(self) -> None:
        self.graph.replay()


def in_turns(calls: Mapping[str, Call], device: str) -> dict[str, float]:
    """Return the milliseconds of each call: the median of samples, for which the calls take
    turns."""
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
    """Return the mean seconds of a call, of ``count`` in a row."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def on_cuda(call: Call, count: int) -> float:
    """Return the mean seconds of a call, of ``count`` in a row, by the GPU's clock.

    An untimed call goes first, so that the GPU is busy when the timed ones are launched.
    """
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()  # so that the device is busy when the first event is recorded
    start.record()
    for _ in range(count):
        call()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) * 1e-3 / count
