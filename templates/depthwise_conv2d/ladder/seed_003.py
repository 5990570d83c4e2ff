"""Rungs of seed 003: from one block for each image to one thread for each output."""

from __future__ import annotations

from tvm.s_tir import Schedule

from templates.depthwise_conv2d.ladder.baseline import computation
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.spaces.grid import Grid

TILE = 16


def naive(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Bind a block for each image of the batch."""
    sch = Schedule(computation(workload))
    b, *_ = sch.get_loops(sch.get_sblock("y"))
    Grid(sch, kind).blocks(b)
    return sch


def v1(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Bind a block for each plane: images along one axis of the grid, channels along the other."""
    sch = Schedule(computation(workload))
    b, c, *_ = sch.get_loops(sch.get_sblock("y"))
    Grid(sch, kind).blocks(b, c)
    return sch


def v2(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Fuse images and channels along one axis of the grid, with rows along the other."""
    sch = Schedule(computation(workload))
    b, c, i, *_ = sch.get_loops(sch.get_sblock("y"))
    Grid(sch, kind).blocks(sch.fuse(b, c), i)
    return sch


def v3(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Use sixteen by sixteen threads a block, which walks along its rows."""
    sch = Schedule(computation(workload))
    b, c, i, j, *_ = sch.get_loops(sch.get_sblock("y"))
    i_outer, i_inner = sch.split(i, [None, TILE])
    _, j_inner = sch.split(j, [None, TILE])
    grid = Grid(sch, kind)
    grid.blocks(sch.fuse(b, c), i_outer)
    grid.threads(j_inner, i_inner)
    return sch


def v4(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Use a block for each tile of sixteen by sixteen outputs."""
    sch = Schedule(computation(workload))
    b, c, i, j, *_ = sch.get_loops(sch.get_sblock("y"))
    i_outer, i_inner = sch.split(i, [None, TILE])
    j_outer, j_inner = sch.split(j, [None, TILE])
    sch.reorder(i_outer, j_outer, i_inner, j_inner)
    grid = Grid(sch, kind)
    grid.blocks(sch.fuse(b, c), sch.fuse(i_outer, j_outer))
    grid.threads(j_inner, i_inner)
    return sch
