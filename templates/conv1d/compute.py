"""1-D convolution as a padded TE computation."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from templates.conv1d.workload import Conv1dWorkload


def padded(workload: Conv1dWorkload, tile: int, chunk: int) -> Any:
    """The unscheduled program, a TIR function, in correlation form y[i] = sum_t xp[i + t] * wp[t].

    Outputs are padded to a multiple of ``tile`` and taps to chunks of ``chunk``: every tile is
    whole, so guards stand only where data is staged in and written out, never in the inner loop.

    Stages: ``xp`` padded input, ``wp`` padded (and for a convolution reversed) weights,
    ``partial[c, i]`` the sum over chunk c of the taps, ``total[i]`` the sum of the partials,
    ``y`` the cut to L. All but ``y`` are float32, whatever the workload's dtype. Summing chunk by
    chunk keeps the rounding error of long float32 sums near that of their longest chunk (the
    two-level case of Higham, "The accuracy of floating point summation", 1993).
    """
    M, N, L, left = workload.M, workload.N, workload.length, workload.left
    outputs, chunks = -(-L // tile) * tile, -(-N // chunk)
    taps = chunk * chunks
    x = te.placeholder((M,), workload.dtype, name="x")
    w = te.placeholder((N,), workload.dtype, name="w")

    span = outputs + taps
    xp = te.compute(
        (span,),
        lambda p: _guarded(x, p - left, [(p >= left, left > 0), (p < M + left, span > M + left)]),
        name="xp",
    )
    flip = workload.kind == "convolve"
    wp = te.compute(
        (taps,),
        lambda t: _guarded(w, N - 1 - t if flip else t, [(t < N, taps > N)]),
        name="wp",
    )
    t = te.reduce_axis((0, chunk), name="t")
    partial = te.compute(
        (chunks, outputs),
        lambda c, i: te.sum(xp[i + (c * chunk + t)] * wp[c * chunk + t], axis=t),
        name="partial",
    )
    c = te.reduce_axis((0, chunks), name="c")
    total = te.compute((outputs,), lambda i: te.sum(partial[c, i], axis=c), name="total")
    y = te.compute((L,), lambda i: total[i].astype(workload.dtype), name="y")
    return te.create_prim_func([x, w, y])


def _guarded(tensor: Any, index: Any, conditions: list[tuple[Any, bool]]) -> Any:
    """``tensor[index]`` in float32 where all conditions that can fail hold, zero elsewhere."""
    needed = [condition for condition, can_fail in conditions if can_fail]
    value = tensor[index].astype("float32")
    if not needed:
        return value
    return tirx.if_then_else(tirx.all(*needed), value, tirx.const(0.0, "float32"))
