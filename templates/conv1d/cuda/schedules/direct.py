"""The programs of ``CudaDirect``: input and weights in shared memory, sums in registers."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule

from templates.conv1d.compute import padded
from templates.conv1d.workload import Conv1dWorkload


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    tile = config["threads"] * config["outputs_per_thread"]
    return padded(workload, tile, config["taps_per_chunk"])


def schedule(sch: Schedule, config: dict[str, Any]) -> None:
    threads, per_thread = config["threads"], config["outputs_per_thread"]
    step, together = config["taps_per_step"], config["staging"] == "together"
    xp, wp, partial, total, y = (
        sch.get_sblock(name) for name in ("xp", "wp", "partial", "total", "y")
    )

    i, c = sch.get_loops(total)
    block, thread, r = sch.split(i, [None, threads, per_thread], preserve_unit_iters=True)
    sch.reorder(block, thread, c, r)
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.unroll(r)
    sch.set_scope(total, 0, "local")
    if config["stores"] == "own":
        sch.reverse_compute_at(y, thread, preserve_unit_loops=True)
        sch.unroll(sch.get_loops(y)[-1])
    else:
        out = sch.cache_read(y, 0, "shared")
        sch.reverse_compute_at(out, thread, preserve_unit_loops=True)
        sch.unroll(sch.get_loops(out)[-1])
        sch.reverse_compute_at(y, block, preserve_unit_loops=True)
        _cooperate(sch, y, threads, unrolled=False)

    sch.compute_at(partial, c, preserve_unit_loops=True)
    sch.set_scope(partial, 0, "local")
    *_, pr, t = sch.get_loops(partial)
    t_outer, t_inner = sch.split(t, [None, step], preserve_unit_iters=True)
    sch.reorder(t_outer, t_inner, pr)
    sch.unroll(t_inner)
    sch.unroll(pr)

    # the scope first: it decides whether a stage covers one thread's region or the whole block's
    sch.set_scope(xp, 0, "shared")
    sch.compute_at(xp, c, preserve_unit_loops=True)
    _cooperate(sch, xp, threads, together)
    x_local = sch.cache_read(partial, 0, "local")
    sch.compute_at(x_local, t_outer, preserve_unit_loops=True)
    sch.unroll(sch.get_loops(x_local)[-1])

    if config["weights"] == "shared":
        sch.set_scope(wp, 0, "shared")
        sch.compute_at(wp, c, preserve_unit_loops=True)
        _cooperate(sch, wp, threads, together)
        w_local = sch.cache_read(partial, 1, "local")
        sch.compute_at(w_local, t_outer, preserve_unit_loops=True)
        sch.unroll(sch.get_loops(w_local)[-1])
    else:
        sch.compute_at(wp, t_outer, preserve_unit_loops=True)
        sch.set_scope(wp, 0, "local")
        sch.unroll(sch.get_loops(wp)[-1])

    partial_init = sch.decompose_reduction(partial, t_outer)
    sch.unroll(sch.get_loops(partial_init)[-1])
    total_init = sch.decompose_reduction(total, c)
    sch.unroll(sch.get_loops(total_init)[-1])


def _cooperate(sch: Schedule, stage: Any, threads: int, unrolled: bool) -> None:
    """Divide a stage among the threads of a block: neighbouring threads take neighbours."""
    loop = sch.get_loops(stage)[-1]
    trip, thread = sch.split(loop, [None, threads], preserve_unit_iters=True)
    sch.bind(thread, "threadIdx.x")
    if unrolled:
        sch.unroll(trip)
