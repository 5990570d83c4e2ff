"""The rungs of seed 004, 1-D convolution in CUDA: from a thread for each output to eight outputs a
thread in registers.

The document keeps its kernel in constant memory, for which TVM has no scope. Here the weights are
in shared memory, which also serves a warp in one turn if all its threads read the same address."""

from __future__ import annotations

from functools import partial as bind

from tvm.s_tir import Schedule

from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.compute import padded
from templates.conv1d.ladder.baseline import computation
from templates.conv1d.workload import Conv1dWorkload
from templates.spaces.grid import Grid

THREADS = 512
BLOCKED_THREADS = 128
OUTPUTS = 8
STEP = 8
LINE = 16
"""Floats in 64 bytes, to which the document aligns its kernel."""


def naive(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Schedule a thread for each output, 512 a block. It reads everything from global memory."""
    sch = Schedule(computation(workload))
    block, thread = sch.split(sch.get_loops(sch.get_sblock("y"))[0], [None, THREADS])
    grid = Grid(sch, kind)
    grid.blocks(block)
    grid.threads(thread)
    return sch


def shared(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Stage the block's input with its halo, and the weights, in shared memory."""
    return _staged(workload, kind, threads=THREADS, outputs=1, step=1)


def registers(workload: Conv1dWorkload, kind: str, threads: int = BLOCKED_THREADS) -> Schedule:
    """Compute eight neighbouring outputs a thread from a window of the input in registers."""
    return _staged(workload, kind, threads, outputs=OUTPUTS, step=STEP)


def micro(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Pad the kernel to whole lines of 64 bytes and fetch it in aligned vectors of four.

    The document reads with ``__ldg``, which TVM cannot express. The ``__restrict__`` of TVM's code
    lets the compiler choose the same path.
    """
    return _staged(workload, kind, BLOCKED_THREADS, outputs=OUTPUTS, step=STEP, line=LINE)


threads_64 = bind(registers, threads=64)
threads_128 = bind(registers, threads=128)
threads_256 = bind(registers, threads=256)
threads_512 = bind(registers, threads=512)
threads_1024 = bind(registers, threads=1024)


def _staged(
    workload: Conv1dWorkload, kind: str, threads: int, outputs: int, step: int, line: int = 0
) -> Schedule:
    chunk = chunk_lengths(workload.N, (line or step,))[0]
    sch = Schedule(padded(workload, threads * outputs, chunk))
    grid = Grid(sch, kind)
    xp, wp, partial, total, y = (
        sch.get_sblock(name) for name in ("xp", "wp", "partial", "total", "y")
    )
    i, c = sch.get_loops(total)
    block, thread, r = sch.split(i, [None, threads, outputs], preserve_unit_iters=True)
    if grid.cuda:
        sch.reorder(thread, c, r)
        place = thread
    else:  # the loop that stands for the threads follows the chunk's staging
        sch.reorder(block, c, thread, r)
        place = block
    grid.blocks(block)
    grid.threads(thread)
    sch.set_scope(total, 0, "local")
    sch.reverse_compute_at(y, place, preserve_unit_loops=True)
    sch.compute_at(partial, c if grid.cuda else thread, preserve_unit_loops=True)
    sch.set_scope(partial, 0, "local")
    *_, pr, t = sch.get_loops(partial)
    t_outer, t_inner = sch.split(t, [None, step], preserve_unit_iters=True)
    sch.reorder(t_outer, t_inner, pr)
    grid.stage(xp, c, (threads,))
    grid.stage(wp, c, (threads,))
    if outputs > 1:
        for operand in (0, 1):
            local = sch.cache_read(partial, operand, "local")
            sch.compute_at(local, t_outer, preserve_unit_loops=True)
            fetch = sch.get_loops(local)[-1]
            if operand == 1 and line:
                fetch, lane = sch.split(fetch, [None, 4], preserve_unit_iters=True)
                sch.vectorize(lane)
            sch.unroll(fetch)
        sch.unroll(t_inner)
        sch.unroll(pr)
    for stage, loop in ((partial, t_outer), (total, c)):
        init = sch.decompose_reduction(stage, loop)
        if outputs > 1:
            sch.unroll(sch.get_loops(init)[-1])
    return sch
