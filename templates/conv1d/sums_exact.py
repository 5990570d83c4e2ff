"""The sums of 1-D convolution in float64, for references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.exact.by_transforms import correlated
from templates.exact.in_threads import in_threads
from templates.kernels.transform import smooth

DIRECT_LIMIT = 2**24
"""Multiply-adds of one signal up to which the direct sum is taken; above, the transform is far
quicker."""
DIRECT_TAPS = 80
"""Taps of several signals up to which the sum is direct."""
BLOCK = 2**20
"""Elements of an array worked on at once; a few of this size are in memory."""

Array = NDArray[np.float64]


def sums(
    workload: Conv1dWorkload, x: NDArray[np.floating[Any]], w: NDArray[np.floating[Any]]
) -> Array:
    """The exact value to within float64 rounding, of a forward workload's output's shape, for an
    input and a weight of its shapes.

    One signal by ``numpy.convolve`` in float64, or if it is large by the convolution theorem, whose
    float64 error (about 1e-15 of the largest value) is far below any ``max_error``. Others block by
    block, so that little beside the result is in memory at once.
    """
    if workload.is_basic:
        return _one_signal(workload, x, w)
    result = np.empty(workload.output.shape)
    outputs = channels_first(workload, result)
    signals = channels_first(workload, x)
    taps = in_order(workload, w).astype(np.float64)
    summed = _sums_of_channels if workload.multiplier > 1 or workload.is_dense else _sums_of_each
    in_threads(lambda b: summed(workload, signals[b], taps, outputs[b]), range(workload.B))
    return result


def in_order(workload: Conv1dWorkload, w: NDArray[Any]) -> NDArray[Any]:
    """The same memory as output channels by input channels by taps, these in the order in which
    they meet the samples."""
    taps = w.reshape(workload.out_channels, workload.summed, workload.N)
    return taps[..., ::-1] if workload.kind == "convolve" else taps


def channels_first(workload: Conv1dWorkload, array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as signals by channels by samples."""
    if workload.is_one_signal:
        return array[None, None]
    return array.swapaxes(1, 2) if workload.layout == "NWC" else array


def near(workload: Conv1dWorkload, first: int, outputs: int) -> range:
    """The taps that meet a sample in some of these outputs; one, if none does. Of a kernel that is
    longer than its signal most meet padding alone."""
    start = first * workload.stride - workload.left
    last = start + (outputs - 1) * workload.stride
    begin = min(max(0, ceil_div(-last, workload.dilation)), workload.N - 1)
    end = min(workload.N, (workload.M - 1 - start) // workload.dilation + 1)
    return range(begin, max(end, begin + 1))


def window_of(
    workload: Conv1dWorkload,
    x: NDArray[np.floating[Any]],
    first: int,
    outputs: int,
    taps: range,
) -> Array:
    """What so many outputs of some channels are computed from by those taps, with zeros for the
    padding."""
    start = first * workload.stride - workload.left + taps.start * workload.dilation
    stop = start + (outputs - 1) * workload.stride + span_of(workload, taps)
    inside = x[:, min(max(start, 0), workload.M) : max(min(stop, workload.M), 0)]
    before = min(max(-start, 0), stop - start)
    behind = stop - start - before - inside.shape[1]
    return np.pad(inside.astype(np.float64), ((0, 0), (before, behind)))


def span_of(workload: Conv1dWorkload, taps: range) -> int:
    """Samples from the first of the taps to the last."""
    return (len(taps) - 1) * workload.dilation + 1


def blocks(extent: int, step: int) -> Iterator[tuple[int, int]]:
    """Start and length of pieces."""
    for start in range(0, extent, step):
        yield start, min(step, extent - start)


def _sums_of_channels(
    workload: Conv1dWorkload, x: NDArray[np.floating[Any]], taps: Array, result: Array
) -> None:
    """Several outputs of the same input: a product of matrices for each few outputs."""
    summed, several = workload.summed, workload.multiplier
    rows = workload.C // summed
    by_row = taps.reshape(rows, several, summed, workload.N)
    step = max(1, BLOCK // max(several, summed * workload.N))
    for row in range(rows):
        channels = x[row * summed : (row + 1) * summed]
        for first, outputs in blocks(workload.length, step):
            used = near(workload, first, outputs)
            window = window_of(workload, channels, first, outputs, used)
            met = sliding_window_view(window, span_of(workload, used), axis=1)
            met = met[:, :: workload.stride, :: workload.dilation]
            flat = met.transpose(0, 2, 1).reshape(summed * len(used), outputs)
            place = result[row * several : (row + 1) * several, first : first + outputs]
            place[...] = by_row[row, ..., used.start : used.stop].reshape(several, -1) @ flat


def _sums_of_each(
    workload: Conv1dWorkload, x: NDArray[np.floating[Any]], taps: Array, result: Array
) -> None:
    """A kernel for each channel: a shifted multiply-add for each tap, or a product of transforms.
    What wraps around lies behind the outputs."""
    s, d = workload.stride, workload.dilation
    step = max(1, BLOCK // (workload.length * s + workload.span))
    for row, rows in blocks(workload.C, step):
        kernels = taps[row : row + rows, 0]
        for first, outputs in blocks(workload.length, max(1, BLOCK // s)):
            used = near(workload, first, outputs)
            window = window_of(workload, x[row : row + rows], first, outputs, used)
            reach = (outputs - 1) * s + 1
            if len(used) <= DIRECT_TAPS:
                sums = np.zeros((rows, outputs))
                for place, t in enumerate(used):
                    sums += window[:, place * d : place * d + reach : s] * kernels[:, t, None]
            else:
                spread = np.zeros((rows, span_of(workload, used)))
                spread[:, ::d] = kernels[:, used.start : used.stop]
                sums = correlated(window, spread, axes=1)[:, :reach:s]
            result[row : row + rows, first : first + outputs] = sums


def _one_signal(
    workload: Conv1dWorkload, x: NDArray[np.floating[Any]], w: NDArray[np.floating[Any]]
) -> Array:
    taps = w[::-1] if workload.kind == "correlate" else w
    a, b = x.astype(np.float64), taps.astype(np.float64)
    if workload.length * workload.N <= DIRECT_LIMIT:
        if workload.mode == "causal":
            return np.convolve(a, b)[: workload.length]
        return np.convolve(a, b, mode=workload.mode or "full")
    full = workload.M + workload.N - 1
    size = smooth(full)
    product = np.fft.rfft(a, size) * np.fft.rfft(b, size)
    start = workload.N - 1 - workload.left
    result: Array = np.fft.irfft(product, size)[start : start + workload.length]
    return result
