"""The forward sums of 1-D convolution in float64, and the slicing of tensors that the references
of gradients share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from templates.ceil_div import ceil_div
from templates.conv1d.workload import Conv1dWorkload
from templates.exact.fft_correlation import correlate_by_fft
from templates.exact.fft_length import fast_fft_length
from templates.exact.in_threads import in_threads

DIRECT_LIMIT = 2**24
"""Most multiply-adds for which one signal is summed directly. Beyond it, the Fourier transform is
far quicker."""
DIRECT_TAPS = 80
"""Most taps for which channels apart are summed directly, tap by tap."""
BLOCK = 2**20
"""Elements of an intermediate array. A few arrays of this size are in memory at once."""

Array = NDArray[np.float64]
Piece = tuple[int, int, int, int, int]


def sums(
    workload: Conv1dWorkload, x: NDArray[np.floating[Any]], w: NDArray[np.floating[Any]]
) -> Array:
    """Return the sums of a forward workload, before its epilogue, to within float64 rounding.

    ``x`` and ``w`` have the shapes of the workload's input and weight, the result that of its
    output. One signal is computed by ``numpy.convolve`` in float64, or by the convolution theorem
    if it is large. The theorem's float64 error (about 1e-15 of the largest value) is far below any
    ``max_error``. Other workloads are computed block by block, so that little beside the result is
    in memory at once.
    """
    if workload.is_basic:
        return _one_signal(workload, x, w)
    result = np.empty(workload.output.shape)
    outputs = channels_first(workload, result)
    signals = channels_first(workload, x)
    taps = in_correlation_order(workload, w).astype(np.float64)
    several, summed = workload.multiplier, workload.summed
    by_products = several > 1 or workload.is_dense

    def fill(piece: Piece) -> None:
        b, row, rows, first, length = piece
        used = taps_in_reach(workload, first, length)
        channels = signals[b, row * summed : (row + rows) * summed]
        window = window_of(workload, channels, first, length, used)
        filters = np.s_[row * several : (row + rows) * several]
        kernels = taps[filters, :, used.start : used.stop]
        place = outputs[b, filters, first : first + length]
        if by_products:
            place[...] = _sums_by_products(workload, window, kernels, length)
        else:
            place[...] = _sums_depthwise(workload, window, kernels[:, 0], length)

    in_threads(fill, _pieces(workload, by_products))
    return result


def in_correlation_order(workload: Conv1dWorkload, w: NDArray[Any]) -> NDArray[Any]:
    """Return a view of the weight of shape (output channels, input channels summed, taps), with the
    taps in the order in which they meet the samples."""
    taps = w.reshape(workload.out_channels, workload.summed, workload.N)
    return taps[..., ::-1] if workload.kind == "convolve" else taps


def channels_first(workload: Conv1dWorkload, array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an input or output of shape (signals, channels, samples)."""
    if workload.is_one_signal:
        return array[None, None]
    return array.swapaxes(1, 2) if workload.layout == "NWC" else array


def taps_in_reach(workload: Conv1dWorkload, first: int, outputs: int) -> range:
    """Return the range of taps that meet a sample in one of ``outputs`` outputs from ``first`` on.

    The other taps meet only padding, as most taps do if a kernel is longer than its signal. If no
    tap meets a sample, the range has one tap.
    """
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
    """Return the samples that ``taps`` meet in ``outputs`` outputs from ``first`` on, in float64.

    ``x`` has the shape (channels, M), the result (channels, samples). Padding is zeros.
    """
    start = first * workload.stride - workload.left + taps.start * workload.dilation
    stop = start + (outputs - 1) * workload.stride + span_of(workload, taps)
    inside = x[:, min(max(start, 0), workload.M) : max(min(stop, workload.M), 0)]
    before = min(max(-start, 0), stop - start)
    behind = stop - start - before - inside.shape[1]
    return np.pad(inside.astype(np.float64), ((0, 0), (before, behind)))


def span_of(workload: Conv1dWorkload, taps: range) -> int:
    """Return the distance in samples from the first of the taps to the last, both included."""
    return (len(taps) - 1) * workload.dilation + 1


def blocks(extent: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield the start and the length of consecutive pieces of at most ``step`` elements."""
    for start in range(0, extent, step):
        yield start, min(step, extent - start)


def _pieces(workload: Conv1dWorkload, by_products: bool) -> Iterator[Piece]:
    """Yield the output in pieces: the signal, the first group of channels and their number, the
    first output and their number. Groups of one channel share a piece if their signals are short.
    """
    groups, stride = workload.C // workload.summed, workload.stride
    if by_products:
        rows = 1
        length = BLOCK // max(workload.multiplier, workload.summed * workload.N)
    else:
        rows = max(1, BLOCK // (workload.length * stride + workload.span))
        length = BLOCK // stride
    for b in range(workload.B):
        for row in blocks(groups, rows):
            for output in blocks(workload.length, max(1, length)):
                yield b, *row, *output


def _sums_by_products(
    workload: Conv1dWorkload, window: Array, kernels: Array, outputs: int
) -> Array:
    """Return the sums of a piece if several output channels share an input or are dense, by a
    product of matrices."""
    filters, summed, taps = kernels.shape
    met = sliding_window_view(window, span_of(workload, range(taps)), axis=1)
    met = met[:, :: workload.stride, :: workload.dilation]
    flat = met.transpose(0, 2, 1).reshape(summed * taps, outputs)
    return kernels.reshape(filters, -1) @ flat


def _sums_depthwise(workload: Conv1dWorkload, window: Array, kernels: Array, outputs: int) -> Array:
    """Return the sums of a piece if each channel has one kernel.

    Few taps are added one by one, as shifted multiply-adds, many by a product of Fourier
    transforms. That product is circular, but the values that wrap around lie behind the outputs.
    """
    s, d = workload.stride, workload.dilation
    rows, taps = kernels.shape
    reach = (outputs - 1) * s + 1
    if taps <= DIRECT_TAPS:
        sums = np.zeros((rows, outputs))
        for t in range(taps):
            sums += window[:, t * d : t * d + reach : s] * kernels[:, t, None]
        return sums
    spread = np.zeros((rows, span_of(workload, range(taps))))
    spread[:, ::d] = kernels
    return correlate_by_fft(window, spread, axes=1)[:, :reach:s]


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
    size = fast_fft_length(full)
    product = np.fft.rfft(a, size) * np.fft.rfft(b, size)
    start = workload.N - 1 - workload.left
    result: Array = np.fft.irfft(product, size)[start : start + workload.length]
    return result
