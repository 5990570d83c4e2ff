"""The naive schedule, with which every comparison begins."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.epilogue import finished
from templates.kernels.parameters import placeholders

THREADS = 256


def computation(workload: Conv1dWorkload) -> Any:
    """The unscheduled program: y[i] the sum over the taps of a guarded sample times a weight. If
    the dtype is not float32, or there is an epilogue, sums are a stage of their own."""
    M, N, left = workload.M, workload.N, workload.left
    flip = workload.kind == "convolve"
    x, w, *added = placeholders(workload)
    t = te.reduce_axis((0, N), name="t")
    whole = _is_one_stage(workload)
    sums = te.compute(
        workload.output.shape,
        lambda i: te.sum(
            tirx.if_then_else(
                tirx.all(i + t >= left, i + t < M + left),
                x[i + t - left].astype("float32"),
                tirx.const(0.0, "float32"),
            )
            * w[N - 1 - t if flip else t].astype("float32"),
            axis=t,
        ),
        name="y" if whole else "sums",
    )
    if whole:
        return te.create_prim_func([x, w, sums])
    y = te.compute(
        workload.output.shape, lambda i: finished(workload, sums[i], added, 0, [i]), name="y"
    )
    return te.create_prim_func([x, w, *added, y])


def _is_one_stage(workload: Conv1dWorkload) -> bool:
    return workload.dtype == "float32" and not workload.has_epilogue


def naive(workload: Conv1dWorkload, kind: str) -> Schedule:
    """One output at a time, each tap guarded and read from memory; on CUDA a thread for each
    output, in blocks of 256."""
    sch = Schedule(computation(workload))
    loop = sch.get_loops(sch.get_sblock("y"))[0]
    if kind == "cuda":
        block, loop = sch.split(loop, [None, THREADS])
        sch.bind(block, "blockIdx.x")
        sch.bind(loop, "threadIdx.x")
    if not _is_one_stage(workload):
        sums = sch.get_sblock("sums")
        sch.compute_at(sums, loop)
        sch.set_scope(sums, 0, "local")
    return sch
