"""Naive program and schedule: the first baseline of every comparison."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from templates.depthwise_conv2d import gradients
from templates.depthwise_conv2d.compute import guarded
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.naive_schedule import naive_schedule


def computation(workload: DepthwiseConv2dWorkload) -> Any:
    """Return the unscheduled program, a TIR function.

    Forward, y[b, c, i, j] is the sum over the taps of a guarded sample times a weight. If the dtype
    is not float32 or there is an epilogue, the sums are a separate stage. Gradients are computed as
    in ``templates.depthwise_conv2d.gradients``.
    """
    if not workload.is_forward:
        return gradients.computation(workload)
    return guarded(workload, _is_one_stage(workload))


def _is_one_stage(workload: DepthwiseConv2dWorkload) -> bool:
    return workload.dtype == "float32" and not workload.has_epilogue


def naive(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Return the naive schedule: one output at a time, each tap guarded and read from memory.

    On CUDA each output has a thread, in blocks of 256.
    """
    return naive_schedule(computation(workload), {"y": len(workload.output.shape)}, kind)
