"""Float64 references of 1-D convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.epilogue_exact import finished
from templates.kernels.transform import smooth

DIRECT_LIMIT = 2**24
"""Multiply-adds up to which the direct sum is taken; above, the transform is far quicker."""


def reference(
    workload: Conv1dWorkload,
    x: NDArray[np.floating[Any]],
    w: NDArray[np.floating[Any]],
    *added: NDArray[np.floating[Any]],
) -> NDArray[np.float64]:
    """The exact value to within float64 rounding: x of shape (M,), w of (N,), result of (L,);
    ``added`` are the bias, of (1,), and the residual, of (L,), if the workload has them.

    Small shapes by ``numpy.convolve`` in float64; large ones by the convolution theorem, whose
    float64 error (about 1e-15 of the largest value) is far below any ``max_error``.
    """
    return finished(workload, _sums(workload, x, w), added, axis=1)


def _sums(
    workload: Conv1dWorkload, x: NDArray[np.floating[Any]], w: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    taps = w[::-1] if workload.kind == "correlate" else w
    a, b = x.astype(np.float64), taps.astype(np.float64)
    if workload.length * workload.N <= DIRECT_LIMIT:
        if workload.mode == "causal":
            return np.convolve(a, b)[: workload.length]
        return np.convolve(a, b, mode=workload.mode)
    full = workload.M + workload.N - 1
    size = smooth(full)
    product = np.fft.rfft(a, size) * np.fft.rfft(b, size)
    start = workload.N - 1 - workload.left
    result: NDArray[np.float64] = np.fft.irfft(product, size)[start : start + workload.length]
    return result
