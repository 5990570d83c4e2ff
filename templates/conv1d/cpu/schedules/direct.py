"""The programs of ``CpuDirect``: vector registers of outputs, one broadcast tap at a time."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from templates.conv1d.compute import padded
from templates.conv1d.workload import Conv1dWorkload


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    tile = config["lanes"] * config["vectors"] * config["tiles_per_task"]
    return padded(workload, tile, config["taps_per_chunk"])


def schedule(sch: Schedule, config: dict[str, Any]) -> None:
    lanes, vectors = config["lanes"], config["vectors"]
    xp, partial, total, y = (sch.get_sblock(name) for name in ("xp", "partial", "total", "y"))

    i, c = sch.get_loops(total)
    tasks, tile, vector, lane = sch.split(
        i, [None, config["tiles_per_task"], vectors, lanes], preserve_unit_iters=True
    )
    sch.reorder(tasks, tile, c, vector, lane)
    sch.unroll(vector)
    sch.vectorize(lane)
    if config["threading"] == "parallel":
        sch.parallel(tasks)
    sch.reverse_compute_at(y, tile, preserve_unit_loops=True)

    sch.compute_at(partial, c, preserve_unit_loops=True)
    *_, outputs, t = sch.get_loops(partial)
    pv, pl = sch.split(outputs, [None, lanes], preserve_unit_iters=True)
    t_outer, t_inner = sch.split(t, [None, config["taps_unrolled"]], preserve_unit_iters=True)
    sch.reorder(t_outer, t_inner, pv, pl)
    sch.unroll(t_inner)
    sch.unroll(pv)
    sch.vectorize(pl)

    sch.compute_at(xp, tasks, preserve_unit_loops=True)

    partial_init = sch.decompose_reduction(partial, t_outer)
    *_, pv, pl = sch.get_loops(partial_init)
    sch.unroll(pv)
    sch.vectorize(pl)
    total_init = sch.decompose_reduction(total, c)
    *_, vector, lane = sch.get_loops(total_init)
    sch.unroll(vector)
    sch.vectorize(lane)
