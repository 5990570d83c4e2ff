"""Schedule of the tiled form on a CPU: a patch of rows by vector registers of outputs."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from templates.depthwise_conv2d.compute import padded
from templates.depthwise_conv2d.cpu.tiled import strip_columns
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return padded(
        workload,
        tile_rows=config["rows"] * config["tiles_per_task"],
        tile_columns=strip_columns(workload.out_width, config),
    )


def schedule(sch: Schedule, config: dict[str, Any]) -> None:
    lanes, vectors, rows = config["lanes"], config["vectors"], config["rows"]
    xp, wp, acc, y = (sch.get_sblock(name) for name in ("xp", "wp", "acc", "y"))

    n, i, j, ky, kx = sch.get_loops(acc)
    i_task, i_tile, row = sch.split(
        i, [None, config["tiles_per_task"], rows], preserve_unit_iters=True
    )
    strip = strip_columns(int(sch.get(j).extent), config) // (lanes * vectors)
    j_task, j_tile, vector, lane = sch.split(
        j, [None, strip, vectors, lanes], preserve_unit_iters=True
    )
    sch.reorder(n, i_task, j_task, i_tile, j_tile, ky, kx, row, vector, lane)
    task = sch.fuse(n, i_task, j_task, preserve_unit_iters=True)
    for loop in (row, vector):
        sch.unroll(loop)
    sch.vectorize(lane)
    if config["unroll"] != "none":
        sch.unroll(kx)
    if config["unroll"] == "rows":
        sch.unroll(ky)
    if config["threading"] == "parallel":
        sch.parallel(task)
    # The sums of one patch stay in registers until it is written out.
    sch.set_scope(acc, 0, "local")
    sch.reverse_compute_at(y, j_tile, preserve_unit_loops=True)
    sch.compute_inline(wp)
    sch.compute_at(xp, task, preserve_unit_loops=True)

    init = sch.decompose_reduction(acc, ky)
    *_, row, vector, lane = sch.get_loops(init)
    for loop in (row, vector):
        sch.unroll(loop)
    sch.vectorize(lane)
