"""Where every comparison begins: the schedule nobody has touched."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from templates.conv1d.workload import Conv1dWorkload

THREADS = 256


def computation(workload: Conv1dWorkload) -> Any:
    """The unscheduled program: y[i] the sum over the taps of a guarded sample times a weight."""
    M, N, left = workload.M, workload.N, workload.left
    flip = workload.kind == "convolve"
    x = te.placeholder((M,), workload.dtype, name="x")
    w = te.placeholder((N,), workload.dtype, name="w")
    t = te.reduce_axis((0, N), name="t")
    y = te.compute(
        workload.output_shape,
        lambda i: te.sum(
            tirx.if_then_else(
                tirx.all(i + t >= left, i + t < M + left),
                x[i + t - left],
                tirx.const(0.0, workload.dtype),
            )
            * w[N - 1 - t if flip else t],
            axis=t,
        ),
        name="y",
    )
    return te.create_prim_func([x, w, y])


def naive(workload: Conv1dWorkload, kind: str) -> Schedule:
    """One output at a time, each tap guarded and read from memory; on CUDA a thread for each
    output, in blocks of 256."""
    sch = Schedule(computation(workload))
    if kind == "cuda":
        block, thread = sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, THREADS])
        sch.bind(block, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
    return sch
