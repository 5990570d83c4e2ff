"""The programs of ``CudaBlocks``, also for a CPU, for which one is a rung of the ladder."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from templates.conv1d.compute import padded
from templates.conv1d.cuda.seeds.blocks import taps_per_chunk
from templates.conv1d.workload import Conv1dWorkload
from templates.spaces.grid import Grid


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return padded(workload, config["outputs_per_block"], taps_per_chunk(workload, config))


def schedule(sch: Schedule, config: dict[str, Any], kind: str = "cuda") -> None:
    outputs, threads, step = (
        config[name] for name in ("outputs_per_block", "threads", "taps_per_step")
    )
    grid = Grid(sch, kind)
    xp, wp, partial, total, y = (
        sch.get_sblock(name) for name in ("xp", "wp", "partial", "total", "y")
    )
    i, c = sch.get_loops(total)
    block, r, thread = sch.split(i, [None, outputs // threads, threads], preserve_unit_iters=True)
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
    t_outer, t_inner = sch.split(t, [None, step], preserve_unit_iters=True)
    sch.compute_at(wp, t_outer, preserve_unit_loops=True)
    sch.set_scope(wp, 0, "local")
    sch.unroll(sch.get_loops(wp)[-1])
    sch.unroll(t_inner)
    sch.decompose_reduction(partial, t_outer)
    sch.decompose_reduction(total, c)
