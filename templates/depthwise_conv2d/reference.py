"""Float64 reference of depthwise 2-D convolution."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.epilogue_exact import finished
from templates.kernels.transform import smooth

DIRECT_TAPS = 80
"""Taps up to which they are summed one by one; above, the transform is quicker."""
TILE = 2**18
"""Outputs of a plane worked on at once."""
BLOCK = 2**20
"""Outputs of several small planes worked on at once; a few arrays of this size are in memory."""

Array = NDArray[np.float64]
Block = tuple[slice, slice, slice, slice]


def reference(
    workload: DepthwiseConv2dWorkload,
    x: NDArray[np.floating[Any]],
    w: NDArray[np.floating[Any]],
    *added: NDArray[np.floating[Any]],
) -> Array:
    """The sum over taps in float64: x of shape (B, C, H, W), w of (C, 1, K, K), result of
    (B, C, Ho, Wo); ``added`` are the bias, of (C,), and the residual, of the result's shape, if the
    workload has them.

    Block by block, so that little beside the result is in memory at once. Large kernels by the
    convolution theorem, whose float64 error (about 1e-15 of the largest value) is far below any
    ``max_error``.
    """
    middle, reach = workload.K // 2, tuple(extent // 2 for extent in workload.near)
    near = tuple(slice(middle - r, middle + r + 1) for r in reach)
    taps = w[:, 0][(slice(None), *near)].astype(np.float64)
    summed = _direct if taps[0].size <= DIRECT_TAPS else _transformed
    result = np.empty(workload.output.shape)
    for block in _blocks(result.shape):
        window = _window(x, block, reach, workload.stride)
        result[block] = summed(window, taps[block[1]], workload.stride)
    return finished(workload, result, added, axis=1)


def _blocks(shape: tuple[int, ...]) -> Iterator[Block]:
    """The output in pieces: of several planes where they are small, of one where it is large."""
    _, channels, height, width = shape
    across = min(width, max(TILE // height, round(TILE**0.5)))
    down = min(height, TILE // across)
    planes = max(1, BLOCK // (down * across))
    steps = (max(1, planes // channels), min(planes, channels), down, across)
    yield from product(
        *(
            [slice(start, min(start + step, extent)) for start in range(0, extent, step)]
            for extent, step in zip(shape, steps, strict=True)
        )
    )


def _window(
    x: NDArray[np.floating[Any]], block: Block, reach: tuple[int, ...], stride: int
) -> Array:
    """The part of x that a block of outputs is computed from, with zeros for the padding."""
    inside, padding = [], [(0, 0), (0, 0)]
    for piece, r, extent in zip(block[2:], reach, x.shape[2:], strict=True):
        first, last = piece.start * stride - r, (piece.stop - 1) * stride + r + 1
        inside.append(slice(max(0, first), min(extent, last)))
        padding.append((max(0, -first), max(0, last - extent)))
    return np.pad(x[(*block[:2], *inside)].astype(np.float64), padding)


def _direct(window: Array, taps: Array, stride: int) -> Array:
    """One shifted multiply-add for each tap."""
    height, width = (
        extent - count + 1 for extent, count in zip(window.shape[2:], taps.shape[1:], strict=True)
    )
    result = np.zeros((*window.shape[:2], ceil_div(height, stride), ceil_div(width, stride)))
    for ky, kx in np.ndindex(taps.shape[1:]):
        shifted = window[:, :, ky : ky + height : stride, kx : kx + width : stride]
        result += shifted * taps[:, ky, kx, None, None]
    return result


def _transformed(window: Array, taps: Array, stride: int) -> Array:
    """A product of transforms; what wraps around lies behind the outputs."""
    size = [smooth(extent) for extent in window.shape[2:]]
    product = np.fft.rfft2(window, size) * np.fft.rfft2(taps, size).conj()
    height, width = (
        extent - count + 1 for extent, count in zip(window.shape[2:], taps.shape[1:], strict=True)
    )
    result: Array = np.fft.irfft2(product, size)[:, :, :height:stride, :width:stride]
    return result
