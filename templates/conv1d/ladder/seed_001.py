"""The rung that follows the Triton kernel of seed 001: a block of 2048 outputs, four taps a step,
everything read through the caches. The Triton kernel itself is among the peers."""

from __future__ import annotations

from tvm.s_tir import Schedule

from templates.conv1d.cuda.seeds.schedules import blocks
from templates.conv1d.workload import Conv1dWorkload

CONFIG = {"outputs_per_block": 2048, "taps_per_step": 4, "threads": 128}
"""The 128 threads are Triton's four warps."""


def block_form(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Schedule 2048 outputs a block, sixteen for each of 128 threads; neighbouring threads have
    neighbouring outputs."""
    sch = Schedule(blocks.computation(workload, CONFIG))
    blocks.schedule(sch, CONFIG, kind)
    return sch
