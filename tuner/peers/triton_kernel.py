"""A Triton kernel for the convolution of one signal. Each program computes a block of outputs, a
few taps a step. The module imports Triton, so it must be imported only if Triton is installed.

Triton reads the annotations, so this file must not import ``annotations`` from ``__future__``.
"""

# mypy: ignore-errors
# Triton's own language, which mypy can't check; Triton need not be installed

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
    """Compute ``output[i]``, the sum over t of ``signal[i + t - left] * weights[t]``. If
    ``reverse``, the weights count from their end. Samples outside of the signal are zeros."""
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
