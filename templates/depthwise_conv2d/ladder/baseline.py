"""The naive schedule, with which every comparison begins."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.s_tir import Schedule

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.epilogue import finished
from templates.kernels.parameters import placeholders

THREADS = 256


def computation(workload: DepthwiseConv2dWorkload) -> Any:
    """The unscheduled program: y[b, c, i, j] the sum over the taps of a guarded sample times a
    weight. If the dtype is not float32, or there is an epilogue, sums are a stage of their own."""
    H, W, K, s = workload.H, workload.W, workload.K, workload.stride
    pad = K // 2
    x, w, *added = placeholders(workload)
    ky, kx = te.reduce_axis((0, K), name="ky"), te.reduce_axis((0, K), name="kx")
    whole = _is_one_stage(workload)
    sums = te.compute(
        workload.output.shape,
        lambda b, c, i, j: te.sum(
            tirx.if_then_else(
                tirx.all(
                    i * s + ky >= pad,
                    i * s + ky < H + pad,
                    j * s + kx >= pad,
                    j * s + kx < W + pad,
                ),
                x[b, c, i * s + ky - pad, j * s + kx - pad].astype("float32"),
                tirx.const(0.0, "float32"),
            )
            * w[c, 0, ky, kx].astype("float32"),
            axis=[ky, kx],
        ),
        name="y" if whole else "sums",
    )
    if whole:
        return te.create_prim_func([x, w, sums])
    y = te.compute(
        workload.output.shape,
        lambda *at: finished(workload, sums[at], added, at[1], at),
        name="y",
    )
    return te.create_prim_func([x, w, *added, y])


def _is_one_stage(workload: DepthwiseConv2dWorkload) -> bool:
    return workload.dtype == "float32" and workload.is_plain


def naive(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """One output at a time, each tap guarded and read from memory; on CUDA a thread for each
    output, in blocks of 256."""
    sch = Schedule(computation(workload))
    *_, loop = outputs = sch.get_loops(sch.get_sblock("y"))[:4]
    if kind == "cuda":
        block, loop = sch.split(sch.fuse(*outputs), [None, THREADS])
        sch.bind(block, "blockIdx.x")
        sch.bind(loop, "threadIdx.x")
    if not _is_one_stage(workload):
        sums = sch.get_sblock("sums")
        sch.compute_at(sums, loop)
        sch.set_scope(sums, 0, "local")
    return sch
