"""Profile a training step: the time of its kernels, and of its depthwise convolutions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

SHOWN = 40
"""The number of listed kernels, which are those that take longest."""
OURS = ("convtune::module", "convtune::module_gradients")
WEIGHT_AT = {"aten::convolution": 1, "aten::convolution_backward": 2}
"""By operator, the position of the weight among its arguments."""


def profiled(step: Callable[[], object], device: str) -> dict[str, Any]:
    """Run one step and return its times in ms, of kernels on a GPU and of operators on a CPU.

    ``depthwise`` has the times of depthwise convolutions and their gradients by operator. Each
    entry of ``longest`` is [name, ms in all, number of calls].
    """
    on_gpu = device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, record_shapes=True) as seen:
        step()
        if on_gpu:
            torch.cuda.synchronize()
    events: Any = seen.events()
    named: dict[str, list[float]] = defaultdict(list)
    depthwise: dict[str, float] = defaultdict(float)
    for event in events:
        is_kernel = event.device_type == torch.autograd.DeviceType.CUDA
        if is_kernel == on_gpu and not (is_kernel and event.is_user_annotation):
            spent = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            named[event.name].append(spent / 1e3)
        if not is_kernel and is_depthwise(event) and not _is_within(event):
            spent = event.device_time_total if on_gpu else event.cpu_time_total
            depthwise[event.name] += spent / 1e3
    longest = sorted(named.items(), key=lambda each: -sum(each[1]))[:SHOWN]
    return {
        "total_ms": sum(map(sum, named.values())),
        "depthwise_ms": sum(depthwise.values()),
        "depthwise": dict(depthwise),
        "longest": [[name, sum(spent), len(spent)] for name, spent in longest],
    }


def is_depthwise(event: Any) -> bool:
    """Return whether an event is a call that computes a depthwise layer or its gradients."""
    if event.name in OURS:
        return True
    at, shapes = WEIGHT_AT.get(event.name), event.input_shapes
    if at is None or len(shapes) <= at or len(shapes[at]) != 4:
        return False
    filters, each, *_ = shapes[at]
    return bool(filters > each == 1)


def _is_within(event: Any) -> bool:
    """Return whether an event is within another event for which :func:`is_depthwise` holds."""
    parent = event.cpu_parent
    while parent is not None:
        if is_depthwise(parent):
            return True
        parent = parent.cpu_parent
    return False
