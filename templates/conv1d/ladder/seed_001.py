"""The form of seed 001's Triton kernel: a block of 2048 outputs, four taps a step, everything read
through the caches. The kernel itself, in Triton, is among the peers."""

from __future__ import annotations

from tvm.s_tir import Schedule

from templates.conv1d.cuda.seeds.schedules import blocks
from templates.conv1d.workload import Conv1dWorkload

CONFIG = {"outputs_per_block": 2048, "taps_per_step": 4, "threads": 128}
"""Threads: Triton's four warps."""


def block_form(workload: Conv1dWorkload, kind: str) -> Schedule:
    """2048 outputs a block, sixteen to each of 128 threads, neighbours beside each other."""
    sch = Schedule(blocks.computation(workload, CONFIG))
    blocks.schedule(sch, CONFIG, kind)
    return sch
