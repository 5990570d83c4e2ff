"""The naive program of every 1-D convolution and gradient: the first baseline of a round."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from templates.conv1d import backward, gradients
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.naive_schedule import naive_schedule
from templates.kernels.parameters import placeholders


def computation(workload: Conv1dWorkload) -> Any:
    """Return the unscheduled program, a TIR function, for any workload and direction.

    Forward, each output is the sum over the taps of a guarded sample times a weight. If the dtype
    is not float32, or there is an epilogue or a gate, the sums are a stage of their own. For a
    gradient see ``gradients``, for all gradients at once ``backward``.
    """
    if workload.direction == "backward":
        return backward.computation(workload)
    if not workload.is_forward:
        return gradients.computation(workload)
    M, N, left, several = workload.M, workload.N, workload.left, workload.multiplier
    flip = workload.kind == "convolve"
    x, w, *added = placeholders(workload)
    c = te.reduce_axis((0, workload.summed), name="c")
    t = te.reduce_axis((0, N), name="t")
    axes = [c, t] if workload.is_dense else [t]
    whole = _is_one_stage(workload)

    def element(*place: Any) -> Any:
        return widened(x[workload.place(*place)], workload.dtype)

    def sample_of(b: Any, channel: Any, i: Any) -> Any:
        signal = element(b, workload.gate_channels + channel, i)
        return element(b, channel, i) * signal if workload.gated else signal

    def summed(*at: Any) -> Any:
        b, f, i = workload.axes(at)
        channel, among = (c, c) if workload.is_dense else (f // several, 0)
        place = i * workload.stride + t * workload.dilation
        sample = tirx.if_then_else(
            tirx.all(place >= left, place < M + left),
            sample_of(b, channel, place - left),
            tirx.const(0.0, "float32"),
        )
        weight = w[workload.weight_place(f, among, N - 1 - t if flip else t)]
        return te.sum(sample * weight.astype("float32"), axis=axes)

    sums = te.compute(workload.output.shape, summed, name="y" if whole else "sums")
    if whole:
        return te.create_prim_func([x, w, sums])

    def output(*at: Any) -> Any:
        b, f, i = workload.axes(at)
        gate = element(b, workload.C + f, i) if workload.gated else None
        return apply_epilogue(workload, sums[at], added, f, at, gate=gate)

    y = te.compute(workload.output.shape, output, name="y")
    return te.create_prim_func([x, w, *added, y])


def _is_one_stage(workload: Conv1dWorkload) -> bool:
    return workload.dtype == "float32" and not (workload.has_epilogue or workload.gated)


def naive(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Return the schedule that computes one output at a time and reads each tap from memory.

    ``kind`` is "cpu" or "cuda". On CUDA there is a thread for each output, in blocks of 256.
    """
    several = len(workload.outputs) > 1
    stages = {output.symbol if several else "y": len(output.shape) for output in workload.outputs}
    return naive_schedule(computation(workload), stages, kind)
