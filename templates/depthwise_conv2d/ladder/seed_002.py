"""Rungs of seed 002, a lecture on tiled convolution, in two dimensions.

Blocks have 16 by 16 threads. A thread of ``several_outputs`` has two by two outputs.
"""

from __future__ import annotations

from tvm.s_tir import Schedule

from templates.depthwise_conv2d.cuda.schedules.strategies import computation
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload

SIDE = 16
SEVERAL = 2


def halo_from_global(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Put the tile's inputs in shared memory, and read the halo from global memory."""
    return _rung(workload, kind, "halo_global")


def halo_in_shared_many_loads(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Use as many threads as outputs.

    Tile and halo are in shared memory, with several loads a thread.
    """
    return _rung(workload, kind, "halo_shared")


def one_load_idle_threads(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Use as many threads as the tile has inputs, one load each.

    Threads of the halo do not compute. A kernel of more than 9 by 9 takes several passes.
    """
    return _rung(workload, kind, "idle_threads")


def several_outputs(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Give each thread two by two outputs, so that a tile has less halo for its size."""
    return _rung(
        workload, kind, "several_outputs", rows_per_thread=SEVERAL, columns_per_thread=SEVERAL
    )


def _rung(workload: DepthwiseConv2dWorkload, kind: str, strategy: str, **knobs: int) -> Schedule:
    config = {"strategy": strategy, "threads_y": SIDE, "threads_x": SIDE, **knobs}
    return Schedule(computation(workload, config, kind))
