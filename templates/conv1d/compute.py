"""1-D convolution as a padded TE computation."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.epilogue import apply_epilogue
from templates.kernels.parameters import placeholders

ZERO = tirx.const(0.0, "float32")


def padded(workload: Conv1dWorkload, tile: int, chunk: int) -> Any:
    """Return the unscheduled program for one signal, a TIR function.

    It is in correlation form: y[i] = sum over t of xp[i + t] * wp[t]. Its stages are ``xp``, the
    padded input; ``wp``, the padded weight (reversed for a convolution); ``partial[c, i]``, the sum
    over the taps of chunk c; ``total[i]``, the sum of the partials; and ``y``, the first L totals
    with the epilogue. All stages but ``y`` are float32, whatever the workload's dtype.

    Outputs are padded to a multiple of ``tile``, so that every tile is whole. Only loads and stores
    then need guards, not the inner loop. If there are several chunks of ``chunk`` taps, the last
    one begins early enough to be whole. It has zeros for the taps that the previous chunk also has.
    A single chunk that is longer than N skips the taps beyond the kernel. An output is computed
    only from the inputs on which it depends, because zero times a NaN or an infinity is NaN.

    Summing chunk by chunk keeps the rounding error of long float32 sums near that of their longest
    chunk (the two-level case of Higham, "The accuracy of floating point summation", 1993).
    """
    M, N, L, left = workload.M, workload.N, workload.length, workload.left
    outputs, chunks = ceil_div(L, tile) * tile, ceil_div(N, chunk)
    taps = chunk * chunks
    x, w, *added = placeholders(workload)

    span = outputs + taps
    xp = te.compute(
        (span,),
        lambda p: _guarded(x, p - left, [(p >= left, left > 0), (p < M + left, span > M + left)]),
        name="xp",
    )
    flip = workload.kind == "convolve"
    last = taps - chunk
    again = taps - N if chunks > 1 else 0  # taps that the last two chunks share

    def weight(q: Any) -> Any:
        t = q if again == 0 else tirx.if_then_else(q < last, q, q - again)
        new = tirx.any(q < last, q >= last + again)
        return _guarded(
            w, N - 1 - t if flip else t, [(new, again > 0), (t < N, again == 0 and taps > N)]
        )

    wp = te.compute((taps,), weight, name="wp")
    t = te.reduce_axis((0, chunk), name="t")

    def term(c: Any, i: Any) -> Any:
        start = c * chunk if again == 0 else tirx.min(c * chunk, N - chunk)
        product = xp[i + (start + t)] * wp[c * chunk + t]
        return tirx.if_then_else(t < N, product, ZERO) if chunk > N else product

    partial = te.compute((chunks, outputs), lambda c, i: te.sum(term(c, i), axis=t), name="partial")
    c = te.reduce_axis((0, chunks), name="c")
    total = te.compute((outputs,), lambda i: te.sum(partial[c, i], axis=c), name="total")
    y = te.compute((L,), lambda i: apply_epilogue(workload, total[i], added, 0, [i]), name="y")
    return te.create_prim_func([x, w, *added, y])


def _guarded(tensor: Any, index: Any, conditions: list[tuple[Any, bool]]) -> Any:
    """Return ``tensor[index]`` in float32, or zero if a condition does not hold.

    Each of the ``conditions`` is a pair: the condition, and whether it can fail at all.
    """
    needed = [condition for condition, can_fail in conditions if can_fail]
    value = tensor[index].astype("float32")
    if not needed:
        return value
    return tirx.if_then_else(tirx.all(*needed), value, ZERO)
