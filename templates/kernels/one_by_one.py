"""The schedule that makes one output after the other. Imports TVM."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

THREADS = 256


def one_by_one(computation: Any, dimensions: int, kind: str) -> Schedule:
    """The schedule in which each output, of so many dimensions, is made by itself: stages before
    ``y`` where it needs them. On CUDA a thread for each, in blocks of 256."""
    sch = Schedule(computation)
    stage = sch.get_sblock("y")
    *_, loop = outputs = sch.get_loops(stage)[:dimensions]
    if kind == "cuda":
        block, loop = sch.split(sch.fuse(*outputs), [None, THREADS])
        sch.bind(block, "blockIdx.x")
        sch.bind(loop, "threadIdx.x")
    while stages := sch.get_producers(stage):
        (stage,) = stages
        sch.compute_at(stage, loop)
        sch.set_scope(stage, 0, "local")
        *_, loop = sch.get_loops(stage)
    return sch
