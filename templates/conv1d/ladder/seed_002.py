"""The rungs of seed 002, a lecture on tiled convolution, in one dimension. Blocks have 256 threads;
a thread has one output, or four in the rung ``several_outputs``."""

from __future__ import annotations

from tvm.s_tir import Schedule

from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.cuda.seeds.schedules.strategies import computation
from templates.conv1d.workload import Conv1dWorkload

THREADS = 256
SEVERAL = 4


def halo_from_global(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Stage the tile in shared memory, one load a thread, and read the halo from global memory."""
    return _rung(workload, kind, "halo_global")


def halo_in_shared_many_loads(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Stage tile and halo in shared memory, with a thread for each output; some load twice."""
    return _rung(workload, kind, "halo_shared")


def one_load_idle_threads(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Stage tile and halo with a thread for each input, one load each. The threads of the halo
    compute nothing. A kernel of more than 129 taps takes several passes."""
    return _rung(workload, kind, "idle_threads")


def several_outputs(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Compute four outputs a thread, so that a tile has less halo for its size."""
    return _rung(workload, kind, "several_outputs", outputs_per_thread=SEVERAL)


def _rung(workload: Conv1dWorkload, kind: str, strategy: str, **knobs: int) -> Schedule:
    config = {
        "strategy": strategy,
        "threads": THREADS,
        "taps_per_chunk": chunk_lengths(workload.N, (1,))[0],
        **knobs,
    }
    return Schedule(computation(workload, config, kind))
