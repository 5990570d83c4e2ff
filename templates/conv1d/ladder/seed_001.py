"""The form of seed 001's Triton kernel: a block of 2048 outputs, four taps a step, everything read
through the caches. The kernel itself, in Triton, is among the peers."""

from __future__ import annotations

from tvm.s_tir import Schedule

from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.compute import padded
from templates.conv1d.workload import Conv1dWorkload
from templates.grid import Grid

OUTPUTS = 2048
STEP = 4
THREADS = 128
"""Triton's four warps."""


def block_form(workload: Conv1dWorkload, kind: str) -> Schedule:
    """2048 outputs a block, sixteen to each of 128 threads, neighbours beside each other."""
    sch = Schedule(padded(workload, OUTPUTS, chunk_lengths(workload.N, (STEP,))[0]))
    grid = Grid(sch, kind)
    xp, wp, partial, total, y = (
        sch.get_sblock(name) for name in ("xp", "wp", "partial", "total", "y")
    )
    i, c = sch.get_loops(total)
    block, r, thread = sch.split(i, [None, OUTPUTS // THREADS, THREADS], preserve_unit_iters=True)
    grid.blocks(block)
    if grid.cuda:
        sch.bind(r, "vthread.x")  # neighbouring threads take neighbouring outputs
    grid.threads(thread)
    sch.set_scope(total, 0, "local")
    sch.reverse_compute_at(y, thread, preserve_unit_loops=True)
    sch.compute_at(partial, c, preserve_unit_loops=True)
    sch.set_scope(partial, 0, "local")
    sch.compute_inline(xp)
    *_, t = sch.get_loops(partial)
    t_outer, t_inner = sch.split(t, [None, STEP], preserve_unit_iters=True)
    sch.compute_at(wp, t_outer, preserve_unit_loops=True)
    sch.set_scope(wp, 0, "local")
    sch.unroll(sch.get_loops(wp)[-1])
    sch.unroll(t_inner)
    sch.decompose_reduction(partial, t_outer)
    sch.decompose_reduction(total, c)
    return sch
