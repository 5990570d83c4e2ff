"""Naive schedule: one output after the other. Imports TVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.s_tir import Schedule

THREADS = 256


def naive_schedule(computation: Any, dimensions: Mapping[str, int], kind: str) -> Schedule:
    """Return the schedule in which each element of the outputs is computed by itself.

    ``dimensions`` maps the outputs' stages to their numbers of dimensions. Earlier stages are
    computed for the element that needs them. On CUDA each element has a thread, in blocks of 256.
    """
    sch = Schedule(computation)
    for name, count in dimensions.items():
        _schedule(sch, name, count, kind)
    return sch


def _schedule(sch: Schedule, name: str, dimensions: int, kind: str) -> None:
    stage = sch.get_sblock(name)
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
