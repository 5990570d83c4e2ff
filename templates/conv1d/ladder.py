"""Where the climb begins: the schedule nobody has touched."""

from __future__ import annotations

from tvm import te, tirx
from tvm.s_tir import Schedule

from templates.conv1d.workload import Conv1dWorkload

THREADS = 256


def naive(workload: Conv1dWorkload, kind: str) -> Schedule:
    """One output at a time, each tap guarded and read from memory; on CUDA a thread for each
    output, in blocks of 256."""
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
    sch = Schedule(te.create_prim_func([x, w, y]))
    if kind == "cuda":
        block, thread = sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, THREADS])
        sch.bind(block, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
    return sch
