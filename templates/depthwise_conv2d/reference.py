"""Float64 reference of depthwise 2-D convolution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload


def reference(
    workload: DepthwiseConv2dWorkload, x: NDArray[np.float32], w: NDArray[np.float32]
) -> NDArray[np.float64]:
    """The sum over taps in float64: x of shape (B, C, H, W), w of (C, 1, K, K), result of
    (B, C, Ho, Wo). One shifted multiply-add of a whole plane per tap; taps that fall on padding
    everywhere are left out."""
    s, pad = workload.stride, workload.K // 2
    source = x.astype(np.float64)
    taps = w.astype(np.float64)
    result = np.zeros(workload.output_shape)
    for ky in range(workload.K):
        rows, from_row = _overlap(ky - pad, s, workload.H, workload.out_height)
        if rows.start >= rows.stop:
            continue
        for kx in range(workload.K):
            columns, from_column = _overlap(kx - pad, s, workload.W, workload.out_width)
            if columns.start < columns.stop:
                window = source[:, :, from_row, from_column]
                result[:, :, rows, columns] += window * taps[None, :, 0, ky, kx, None, None]
    return result


def _overlap(shift: int, stride: int, extent: int, outputs: int) -> tuple[slice, slice]:
    """The outputs o for which o·stride + shift lies in [0, extent), and those inputs."""
    first = max(0, -(shift // stride))
    last = min(outputs, (extent - 1 - shift) // stride + 1)
    start = first * stride + shift
    return slice(first, last), slice(start, start + max(0, last - first - 1) * stride + 1, stride)
