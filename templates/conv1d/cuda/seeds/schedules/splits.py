"""The programs of ``CudaSplits``, also for a CPU, for which they are rungs of the ladder."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from templates.conv1d.compute import padded
from templates.conv1d.cuda.seeds.blocks import taps_per_chunk
from templates.conv1d.workload import Conv1dWorkload
from templates.spaces.grid import Grid


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    threads = config["threads_y"] * config["threads_x"]
    return padded(workload, threads, taps_per_chunk(workload, config))


def schedule(sch: Schedule, config: dict[str, Any], kind: str = "cuda") -> None:
    threads, step = (config["threads_y"], config["threads_x"]), config["taps_per_step"]
    grid = Grid(sch, kind)
    xp, wp, partial, total, y = (
        sch.get_sblock(name) for name in ("xp", "wp", "partial", "total", "y")
    )
    i, c = sch.get_loops(total)
    block, row, thread = sch.split(i, [None, *threads], preserve_unit_iters=True)
    grid.blocks(block)
    grid.threads(thread, row)
    sch.set_scope(total, 0, "local")
    sch.reverse_compute_at(y, thread, preserve_unit_loops=True)
    sch.compute_at(partial, c, preserve_unit_loops=True)
    sch.set_scope(partial, 0, "local")
    t_outer, t_inner = sch.split(sch.get_loops(partial)[-1], [None, step], preserve_unit_iters=True)
    for stage, place, through in (
        (xp, c, config["input"]),
        (wp, t_outer, config["weights"]),
    ):
        if through == "shared":
            grid.stage(stage, place, threads)
        else:
            sch.compute_inline(stage)
    if config["unroll"]:
        sch.unroll(t_inner)
    sch.decompose_reduction(partial, t_outer)
    sch.decompose_reduction(total, c)
