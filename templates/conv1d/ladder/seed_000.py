"""The steps of seed 000: 1-D convolution in TVM, from a guarded sum over everything to two-level
threads with cached weights."""

from __future__ import annotations

import math

from tvm import te, tirx
from tvm.s_tir import Schedule

from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.compute import padded
from templates.conv1d.ladder.baseline import computation
from templates.conv1d.workload import Conv1dWorkload
from templates.grid import Grid


def naive(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Every output looks at all M + N - 1 positions and keeps those that its taps reach."""
    M, N, left = workload.M, workload.N, workload.left
    flip = workload.kind == "convolve"
    x = te.placeholder((M,), workload.dtype, name="x")
    w = te.placeholder((N,), workload.dtype, name="w")
    k = te.reduce_axis((0, M + N - 1), name="k")

    def term(i: object) -> object:
        t = k - i + left
        return tirx.if_then_else(
            tirx.all(k < M, t >= 0, t < N),
            x[k] * w[N - 1 - t if flip else t],
            tirx.const(0.0, workload.dtype),
        )

    y = te.compute(workload.output_shape, lambda i: te.sum(term(i), axis=k), name="y")
    sch = Schedule(te.create_prim_func([x, w, y]))
    Grid(sch, kind).blocks(*sch.get_loops(sch.get_sblock("y"))[:1])
    return sch


def v1(workload: Conv1dWorkload, kind: str) -> Schedule:
    """The sum runs over the taps; still one output a block."""
    sch = Schedule(computation(workload))
    Grid(sch, kind).blocks(*sch.get_loops(sch.get_sblock("y"))[:1])
    return sch


def v2(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Eight threads a block."""
    sch = Schedule(computation(workload))
    block, thread = sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, 8])
    grid = Grid(sch, kind)
    grid.blocks(block)
    grid.threads(thread)
    return sch


def v3(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Four by four threads a block."""
    sch = Schedule(computation(workload))
    block, y, x = sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, 4, 4])
    grid = Grid(sch, kind)
    grid.blocks(block)
    grid.threads(x, y)
    return sch


def v4(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Sums in registers; weights through shared memory, four at a time."""
    return _cached(workload, kind, threads=(32,), step=4, unroll=False)


def v5(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Eight by four threads, eight weights at a time, unrolled."""
    return _cached(workload, kind, threads=(8, 4), step=8, unroll=True)


def _cached(
    workload: Conv1dWorkload, kind: str, threads: tuple[int, ...], step: int, unroll: bool
) -> Schedule:
    chunk = chunk_lengths(workload.N, (step,))[0]
    sch = Schedule(padded(workload, math.prod(threads), chunk))
    grid = Grid(sch, kind)
    xp, wp, partial, total, y = (
        sch.get_sblock(name) for name in ("xp", "wp", "partial", "total", "y")
    )
    i, c = sch.get_loops(total)
    block, *bound = sch.split(i, [None, *threads], preserve_unit_iters=True)
    grid.blocks(block)
    grid.threads(*reversed(bound))
    sch.set_scope(total, 0, "local")
    sch.reverse_compute_at(y, bound[-1], preserve_unit_loops=True)
    sch.compute_at(partial, c, preserve_unit_loops=True)
    sch.set_scope(partial, 0, "local")
    t_outer, t_inner = sch.split(sch.get_loops(partial)[-1], [None, step], preserve_unit_iters=True)
    sch.compute_inline(xp)
    grid.stage(wp, t_outer, threads)
    if unroll:
        sch.unroll(t_inner)
    sch.decompose_reduction(partial, t_outer)
    sch.decompose_reduction(total, c)
    return sch
