"""The rungs of seed 000, 1-D convolution in TVM: from a guarded sum over all positions to
two-level threads with cached weights."""

from __future__ import annotations

from tvm import te, tirx
from tvm.s_tir import Schedule

from templates.conv1d.cuda.seeds.schedules import splits
from templates.conv1d.ladder.baseline import computation
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.parameters import placeholders
from templates.spaces.grid import Grid


def naive(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Schedule a block for each output, whose sum runs over all M + N - 1 positions and keeps the
    terms that the output's taps reach."""
    M, N, left = workload.M, workload.N, workload.left
    flip = workload.kind == "convolve"
    x, w = placeholders(workload)
    k = te.reduce_axis((0, M + N - 1), name="k")

    def term(i: object) -> object:
        t = k - i + left
        return tirx.if_then_else(
            tirx.all(k < M, t >= 0, t < N),
            x[k] * w[N - 1 - t if flip else t],
            tirx.const(0.0, workload.dtype),
        )

    y = te.compute(workload.output.shape, lambda i: te.sum(term(i), axis=k), name="y")
    sch = Schedule(te.create_prim_func([x, w, y]))
    Grid(sch, kind).blocks(*sch.get_loops(sch.get_sblock("y"))[:1])
    return sch


def v1(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Schedule a block for each output, whose sum runs over the taps alone."""
    sch = Schedule(computation(workload))
    Grid(sch, kind).blocks(*sch.get_loops(sch.get_sblock("y"))[:1])
    return sch


def v2(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Schedule eight threads a block, each for one output."""
    sch = Schedule(computation(workload))
    block, thread = sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, 8])
    grid = Grid(sch, kind)
    grid.blocks(block)
    grid.threads(thread)
    return sch


def v3(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Schedule four by four threads a block, each for one output."""
    sch = Schedule(computation(workload))
    block, y, x = sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, 4, 4])
    grid = Grid(sch, kind)
    grid.blocks(block)
    grid.threads(x, y)
    return sch


def v4(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Keep sums in registers, and bring weights through shared memory four at a time."""
    return _cached(workload, kind, threads=(1, 32), step=4, unroll=False)


def v5(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Schedule eight by four threads a block, with eight weights at a time, unrolled."""
    return _cached(workload, kind, threads=(8, 4), step=8, unroll=True)


def _cached(
    workload: Conv1dWorkload, kind: str, threads: tuple[int, int], step: int, unroll: bool
) -> Schedule:
    config = {
        "threads_y": threads[0],
        "threads_x": threads[1],
        "taps_per_step": step,
        "weights": "shared",
        "input": "global",
        "unroll": unroll,
    }
    sch = Schedule(splits.computation(workload, config))
    splits.schedule(sch, config, kind)
    return sch
