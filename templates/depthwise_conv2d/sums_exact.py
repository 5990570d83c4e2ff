"""Sums of depthwise 2-D convolution in float64, for references."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.exact.fft_correlation import correlate_by_fft
from templates.exact.in_threads import in_threads

DIRECT_TAPS = 80
"""The most taps that are summed one by one. For more taps, transforms are quicker."""
TILE = 2**18
"""The most outputs of a large plane that are worked on at once."""
BLOCK = 2**18
"""The most outputs of small planes that are worked on at once: a cache holds a few such arrays."""

Array = NDArray[np.float64]
Block = tuple[slice, slice, slice, slice]


def sums(
    workload: DepthwiseConv2dWorkload,
    x: NDArray[np.floating[Any]],
    w: NDArray[np.floating[Any]],
) -> Array:
    """Return the sums over the taps in float64, in the shape of a forward workload's output.

    ``x`` and ``w`` have the shapes of its input and weight. The sums are computed block by block,
    so that memory holds little beside the result. Large kernels use the convolution theorem. Its
    float64 error, about 1e-15 of the largest value, is far below any ``max_error``.
    """
    down, across = workload.used_taps
    near = tuple(slice(each.first, each.first + each.count) for each in workload.used_taps)
    taps = w[:, 0][(slice(None), *near)].astype(np.float64)
    summed = _sum_directly if down.count * across.count <= DIRECT_TAPS else _sum_by_fft
    x = x.transpose(workload.axes(range(4)))
    result = np.empty(workload.output.shape)
    planes = result.transpose(workload.axes(range(4)))

    def fill(block: Block) -> None:
        window = window_of(workload, x, block)
        planes[block] = summed(workload, window, taps[block[1]], planes[block].shape[2:])

    in_threads(fill, blocks(planes.shape))
    return result


def blocks(shape: tuple[int, ...]) -> Iterator[Block]:
    """Yield the output in pieces: of several planes if they are small, of one if it is large."""
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


def window_of(
    workload: DepthwiseConv2dWorkload, x: NDArray[np.floating[Any]], block: Block
) -> Array:
    """Return the part of x that a block of outputs is computed from, with zeros for the padding."""
    inside, padding = [], [(0, 0), (0, 0)]
    for piece, taps, extent in zip(block[2:], workload.used_taps, x.shape[2:], strict=True):
        first = piece.start * workload.stride - taps.before
        length = (piece.stop - 1 - piece.start) * workload.stride + taps.span
        start, stop = (min(max(0, place), extent) for place in (first, first + length))
        ahead = min(max(0, -first), length)
        inside.append(slice(start, stop))
        padding.append((ahead, length - ahead - (stop - start)))
    channels = np.arange(block[1].start, block[1].stop) // workload.multiplier
    part = x[block[0], slice(channels[0], channels[-1] + 1), inside[0], inside[1]]
    return np.pad(part[:, channels - channels[0]].astype(np.float64), padding)


def _sum_directly(
    workload: DepthwiseConv2dWorkload, window: Array, taps: Array, size: tuple[int, ...]
) -> Array:
    """Return the sums of a block by one shifted multiply-add for each tap."""
    stride, step = workload.stride, workload.dilation
    height, width = ((extent - 1) * stride + 1 for extent in size)
    result = np.zeros((*window.shape[:2], *size))
    for ky, kx in np.ndindex(taps.shape[1:]):
        top, left = ky * step, kx * step
        shifted = window[:, :, top : top + height : stride, left : left + width : stride]
        result += shifted * taps[:, ky, kx, None, None]
    return result


def _sum_by_fft(
    workload: DepthwiseConv2dWorkload, window: Array, taps: Array, size: tuple[int, ...]
) -> Array:
    """Return the sums of a block by Fourier transforms.

    Shifts that wrap around lie behind the outputs.
    """
    stride, step = workload.stride, workload.dilation
    spread = np.zeros((len(taps), *(each.span for each in workload.used_taps)))
    spread[:, ::step, ::step] = taps
    height, width = ((extent - 1) * stride + 1 for extent in size)
    return correlate_by_fft(window, spread, axes=2)[:, :, :height:stride, :width:stride]
