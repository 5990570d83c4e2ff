"""A block of outputs a program, a few taps a step. Imports Triton: only if it is wanted.

Annotations are read by Triton, so they are not put off as elsewhere.
"""

# mypy: ignore-errors
# its own language: parsed by Triton, which need not be here

import triton
import triton.language as tl


@triton.jit
def conv1d_kernel(
    signal,
    weights,
    output,
    samples,
    taps,
    length,
    left,
    reverse: tl.constexpr,
    block: tl.constexpr,
    step: tl.constexpr,
):
    """``output[i]`` is the sum over t of ``signal[i + t - left] * weights[t]``, the weights from
    their end where ``reverse``; samples outside of the signal are zeros."""
    rows = tl.program_id(0) * block + tl.arange(0, block)
    sums = tl.zeros((block,), dtype=tl.float32)
    for first in range(0, taps, step):
        columns = first + tl.arange(0, step)
        places = columns
        if reverse:
            places = taps - 1 - columns
        values = tl.load(weights + places, mask=columns < taps, other=0.0)
        reached = rows[:, None] + columns[None, :] - left
        inside = (reached >= 0) & (reached < samples)
        window = tl.load(signal + reached, mask=inside, other=0.0)
        sums += tl.sum(window * values[None, :], axis=1)
    tl.store(output + rows, sums, mask=rows < length)
