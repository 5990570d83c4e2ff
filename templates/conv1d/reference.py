"""Float64 references of 1-D convolution and of its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from templates.conv1d import sums_exact
from templates.conv1d.sums_exact import (
    blocks,
    channels_first,
    in_correlation_order,
    span_of,
    sums,
    taps_in_reach,
    window_of,
)
from templates.conv1d.workload import Conv1dWorkload
from templates.exact.epilogue import apply_epilogue, gradient_of_sums
from templates.exact.fft_correlation import correlate_by_fft

Array = NDArray[np.float64]
Given = NDArray[np.floating[Any]]


def reference(workload: Conv1dWorkload, *given: Given) -> Array | tuple[Array, ...]:
    """Return the exact output to within float64 rounding, in the output's shape.

    ``given`` are the arrays of ``workload.inputs`` in that order. Direction backward returns a
    tuple of all outputs. The result is computed block by block, so that little else is in memory at
    once.
    """
    if workload.direction == "backward_input":
        return _input_gradient(workload, *given)
    if workload.direction == "backward_weight":
        return _weight_gradient(workload, *given)
    if workload.direction == "backward":
        return _all_gradients(workload, *given)
    if workload.gated:
        return _gated(workload, *given)
    x, w, *added = given
    axis = 1 if workload.layout == "NCW" else 2
    return apply_epilogue(workload, sums(workload, x, w), tuple(added), axis)


def _gated(workload: Conv1dWorkload, x: Given, w: Given, *b: Given) -> Array:
    """Return the output of a workload whose input has gates."""
    before, behind, signal = np.split(x, 3, axis=2)
    plain = Conv1dWorkload.model_validate(workload.model_dump() | {"gated": False})
    gated = before.astype(np.float64) * signal.astype(np.float64)
    given = (gated, w, *b)
    signals, taps, *added = (
        a.reshape(each.shape) for a, each in zip(given, plain.inputs, strict=True)
    )
    y = apply_epilogue(plain, sums(plain, signals, taps), tuple(added), 2)
    return y.reshape(workload.output.shape) * behind


def _input_gradient(workload: Conv1dWorkload, g: Given, w: Given, *z: Given) -> Array:
    """Return the input's gradient: the sums' gradients, convolved with the reversed taps.

    If the stride is not 1, stride - 1 zeros are inserted between the sums' gradients first. ``z``
    are the sums, which are given if there is an activation.
    """
    s, F = workload.stride, workload.out_channels
    extent = (workload.length - 1) * s + 1
    result = np.zeros(workload.output.shape)
    outputs = channels_first(workload, result)
    gradients, *values = (channels_first(workload, each) for each in (g, *z))
    taps = in_correlation_order(workload, w)[..., ::-1]
    several = 1 if workload.is_dense else workload.multiplier
    forward = Conv1dWorkload.model_construct(
        M=extent,
        N=workload.N,
        kind="correlate",
        B=1,
        C=F // several,
        F=workload.C,
        groups=1 if workload.is_dense else None,
        dilation=workload.dilation,
        padding=(  # negative if it begins or ends within the gradients
            workload.span - 1 - workload.left,
            workload.M + workload.left - extent,
        ),
    )
    for b in range(workload.B):
        spread = np.zeros((F, extent))
        spread[:, ::s] = gradient_of_sums(workload, gradients[b], *(v[b] for v in values))
        for m in range(several):
            part = taps.swapaxes(0, 1) if workload.is_dense else taps[m::several]
            given = (spread[m::several], part)
            shaped = (a.reshape(each.shape) for a, each in zip(given, forward.inputs, strict=True))
            found = sums(forward, *shaped)
            outputs[b] += found.reshape(outputs[b].shape)
    return result


def _weight_gradient(workload: Conv1dWorkload, x: Given, g: Given, *z: Given) -> Array:
    """Return the weight's gradient: the correlation of the input with the sums' gradients.

    If the workload has a bias, the result is flat, and its last F elements are the bias's gradient:
    for each output channel the total of the sums' gradients.
    """
    signals, gradients, *values = (channels_first(workload, each) for each in (x, g, *z))
    result = np.zeros((workload.out_channels, workload.summed, workload.N))
    biases = np.zeros(workload.out_channels)
    met = _weight_gradient_dense if workload.is_dense else _weight_gradient_grouped
    for b in range(workload.B):
        for rows, channels, first, outputs in _pieces(workload):
            place = np.s_[rows, first : first + outputs]
            here = gradient_of_sums(workload, gradients[b][place], *(v[b][place] for v in values))
            used = taps_in_reach(workload, first, outputs)
            window = window_of(workload, signals[b][channels], first, outputs, used)
            result[rows, :, used.start : used.stop] += met(workload, used, window, here)
            biases[rows] += here.sum(axis=1)
    taps = in_correlation_order(workload, result).reshape(-1)
    return np.concatenate([taps, biases]) if workload.bias else taps.reshape(workload.output.shape)


def _all_gradients(
    workload: Conv1dWorkload, x: Given, g: Given, w: Given, *b: Given
) -> tuple[Array, ...]:
    """Return the gradients of input, weight and bias, each computed by its own direction.

    If there is an activation, its derivative is taken at the sums, which are computed first. ``b``
    is the bias, which is given if the workload has one and an activation.
    """
    before = []
    if workload.activation != "none":
        behind = (1,) if workload.layout == "NCW" and not workload.is_one_signal else ()
        z = sums(workload.with_direction("forward"), x, w)
        for each in b:
            z += each.astype(np.float64).reshape(-1, *behind)
        before.append(z)
    dx = _input_gradient(workload.with_direction("backward_input"), g, w, *before)
    taps = _weight_gradient(workload.with_direction("backward_weight"), x, g, *before).reshape(-1)
    return dx, *(
        taps[first : first + output.elements].reshape(output.shape)
        for first, output in zip((0, w.size), workload.outputs[1:], strict=False)
    )


def _pieces(workload: Conv1dWorkload) -> Iterator[tuple[slice, slice, int, int]]:
    """Yield pieces of the output: the slice of output channels, the slice of input channels that
    they read, the first output and the number of outputs."""
    several, whole = workload.multiplier, workload.length * workload.stride + workload.span
    if workload.is_dense:
        step = max(1, sums_exact.BLOCK // max(workload.summed * workload.N, several))
        for first, outputs in blocks(workload.length, step):
            yield np.s_[:], np.s_[:], first, outputs
        return
    for row, rows in blocks(workload.C, max(1, sums_exact.BLOCK // (whole * several))):
        for first, outputs in blocks(workload.length, max(1, sums_exact.BLOCK // workload.stride)):
            inside = np.s_[row : row + rows]
            yield np.s_[row * several : (row + rows) * several], inside, first, outputs


def _weight_gradient_dense(
    workload: Conv1dWorkload, taps: range, window: Array, gradients: Array
) -> Array:
    """Return the weight's gradient at ``taps`` for dense channels, as a product of matrices.

    ``window`` (C, samples) is from ``window_of``, ``gradients`` (F, outputs) are those of the sums.
    The result has the shape (F, C, len(taps)).
    """
    met = sliding_window_view(window, span_of(workload, taps), axis=1)
    met = met[:, :: workload.stride, :: workload.dilation]
    flat = met.transpose(1, 0, 2).reshape(gradients.shape[1], -1)
    return (gradients @ flat).reshape(len(gradients), -1, len(taps))


def _weight_gradient_grouped(
    workload: Conv1dWorkload, taps: range, window: Array, gradients: Array
) -> Array:
    """Return the weight's gradient at ``taps`` if each output channel reads one input channel.

    Few taps are computed one by one, many by a product of Fourier transforms. That product is
    circular, but the values that wrap around lie beyond the taps. The result has the shape (output
    channels, 1, len(taps)).
    """
    s, d, rows = workload.stride, workload.dilation, len(window)
    apart = gradients.reshape(rows, -1, gradients.shape[1])
    reach = (gradients.shape[1] - 1) * s + 1
    if len(taps) <= sums_exact.DIRECT_TAPS:
        result = np.empty((*apart.shape[:2], len(taps)))
        for t in range(len(taps)):
            result[..., t] = np.einsum("cml,cl->cm", apart, window[:, t * d : t * d + reach : s])
    else:
        spread = np.zeros((*apart.shape[:2], reach))
        spread[..., ::s] = apart
        result = correlate_by_fft(window[:, None], spread, axes=1)[
            ..., : span_of(workload, taps) : d
        ]
    return result.reshape(len(gradients), 1, len(taps))
