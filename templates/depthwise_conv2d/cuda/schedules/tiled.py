"""Schedule of the tiled form on CUDA: a shared tile with its halo, and patches in registers."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from templates.depthwise_conv2d.compute import padded
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return padded(
        workload,
        tile_rows=config["threads_y"] * config["rows_per_thread"],
        tile_columns=config["threads_x"] * config["columns_per_thread"],
    )


def schedule(sch: Schedule, config: dict[str, Any]) -> None:
    planes, ty, tx = config["planes"], config["threads_y"], config["threads_x"]
    rows, columns = config["rows_per_thread"], config["columns_per_thread"]
    xp, wp, acc, y = (sch.get_sblock(name) for name in ("xp", "wp", "acc", "y"))

    n, i, j, ky, kx = sch.get_loops(acc)
    n_outer, n_thread = sch.split(n, [None, planes], preserve_unit_iters=True)
    i_outer, i_thread, i_inner = sch.split(i, [None, ty, rows], preserve_unit_iters=True)
    j_outer, j_thread, j_inner = sch.split(j, [None, tx, columns], preserve_unit_iters=True)
    sch.reorder(n_outer, i_outer, j_outer, n_thread, i_thread, j_thread, ky, kx, i_inner, j_inner)
    block = sch.fuse(n_outer, i_outer, j_outer, preserve_unit_iters=True)
    sch.bind(block, "blockIdx.x")
    sch.bind(n_thread, "threadIdx.z")
    sch.bind(i_thread, "threadIdx.y")
    sch.bind(j_thread, "threadIdx.x")
    sch.set_scope(acc, 0, "local")
    sch.reverse_compute_at(y, j_thread, preserve_unit_loops=True)
    for loop in sch.get_loops(y)[-2:]:
        sch.unroll(loop)

    for stage in (xp, wp):
        # The scope comes first. It decides if the stage covers one thread's region or the block's.
        sch.set_scope(stage, 0, "shared")
        sch.compute_at(stage, block, preserve_unit_loops=True)
        _cooperate(sch, stage, planes, ty, tx)
    if config["row_pitch"] == "aligned":
        sch.storage_align(xp, 0, axis=1, factor=4, offset=0)

    if config["staging"] == "registers":
        for operand in (0, 1):
            local = sch.cache_read(acc, operand, "local")
            sch.compute_at(local, ky, preserve_unit_loops=True)
            for loop in sch.get_loops(local)[-3:]:
                sch.unroll(loop)
    if config["unroll"] == "rows":
        sch.unroll(ky)
    for loop in (kx, i_inner, j_inner):
        sch.unroll(loop)
    init = sch.decompose_reduction(acc, ky)
    for loop in sch.get_loops(init)[-2:]:
        sch.unroll(loop)


def _cooperate(sch: Schedule, stage: Any, planes: int, ty: int, tx: int) -> None:
    """Let a block's threads load a stage of (planes, rows, columns) together, without divisions.

    Each thread strides over rows and columns of its own plane.
    """
    n, row, column = sch.get_loops(stage)[-3:]
    _, z = sch.split(n, [None, planes], preserve_unit_iters=True)
    _, y = sch.split(row, [None, ty], preserve_unit_iters=True)
    _, x = sch.split(column, [None, tx], preserve_unit_iters=True)
    sch.bind(z, "threadIdx.z")
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
