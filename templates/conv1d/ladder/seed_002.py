"""The strategies of seed 002, a lecture on tiled convolution, along one dimension: blocks of 256
threads, four outputs a thread if there are several."""

from __future__ import annotations

from tvm.s_tir import Schedule

from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.cuda.seeds.schedules.strategies import computation
from templates.conv1d.workload import Conv1dWorkload

THREADS = 256
SEVERAL = 4


def halo_from_global(workload: Conv1dWorkload, kind: str) -> Schedule:
    """The tile in shared memory, one load a thread; the halo is read from global memory."""
    return _rung(workload, kind, "halo_global")


def halo_in_shared_many_loads(workload: Conv1dWorkload, kind: str) -> Schedule:
    """As many threads as outputs; tile and halo in shared memory, some threads load twice."""
    return _rung(workload, kind, "halo_shared")


def one_load_idle_threads(workload: Conv1dWorkload, kind: str) -> Schedule:
    """As many threads as the tile has inputs, one load each; those over the halo do not compute.
    A kernel of more than 129 taps takes several passes."""
    return _rung(workload, kind, "idle_threads")


def several_outputs(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Four outputs a thread, so that a tile has less halo for its size."""
    return _rung(workload, kind, "several_outputs", outputs_per_thread=SEVERAL)


def _rung(workload: Conv1dWorkload, kind: str, strategy: str, **knobs: int) -> Schedule:
    config = {
        "strategy": strategy,
        "threads": THREADS,
        "taps_per_chunk": chunk_lengths(workload.N, (1,))[0],
        **knobs,
    }
    return Schedule(computation(workload, config, kind))
