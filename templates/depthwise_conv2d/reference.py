"""References in float64 of depthwise 2-D convolution and of its gradients."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates.depthwise_conv2d import sums_exact
from templates.depthwise_conv2d.sums_exact import blocks, sums, window_of
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.exact.epilogue import apply_epilogue, gradient_of_sums
from templates.exact.fft_correlation import correlate_by_fft
from templates.exact.in_threads import in_threads

Array = NDArray[np.float64]
Given = NDArray[np.floating[Any]]

COLUMNS = 64
"""Columns of the gradient that are multiplied with the columns of the input in one product."""


def reference(workload: DepthwiseConv2dWorkload, *given: Given) -> Array:
    """Return the exact output to within float64 rounding, for arguments in the workload's order.

    It has the output's shape. It is computed block by block, so that memory holds little else.
    """
    if workload.direction == "backward_input":
        return _of_input(workload, *given)
    if workload.direction == "backward_weight":
        return _of_weight(workload, *given)
    x, w, *added = given
    channels = workload.place(0, 1, 2, 3).index(1)
    return apply_epilogue(workload, sums(workload, x, w), tuple(added), axis=channels)


def _of_input(workload: DepthwiseConv2dWorkload, g: Given, w: Given, *z: Given) -> Array:
    """Return the gradient of the input: a convolution, at stride 1, of the sums' gradients.

    Its taps are the weight's in reverse order. If the forward stride is not 1, zeros are put
    between the sums' gradients.
    """
    s, several, pads = workload.stride, workload.multiplier, workload.pads
    reaches = [(taps - 1) * workload.dilation for taps in workload.kernel]
    rows, columns = ((n - 1) * s + 1 for n in (workload.out_height, workload.out_width))
    axes = workload.axes(range(4))
    result = np.zeros(workload.output.shape)
    planes, gradients = result.transpose(axes), g.transpose(axes)
    values = [each.transpose(axes) for each in z]

    def fill(start: tuple[int, int]) -> None:
        image, channel = start
        inputs = np.s_[image : image + images, channel : channel + channels]
        outputs = np.s_[image : image + images, channel * several : (channel + channels) * several]
        given = gradients[outputs]
        spread = np.zeros((*given.shape[:2], rows, columns))
        spread[:, :, ::s, ::s] = gradient_of_sums(workload, given, *(v[outputs] for v in values))
        turned = DepthwiseConv2dWorkload.model_construct(
            B=len(spread),
            C=spread.shape[1] // several,
            H=rows,
            W=columns,
            KH=workload.kernel[0],
            KW=workload.kernel[1],
            padding=(  # negative if the input begins or ends within the gradients
                reaches[0] - pads[0],
                reaches[1] - pads[1],
                workload.H + pads[0] - rows,
                workload.W + pads[1] - columns,
            ),
            dilation=workload.dilation,
        )
        taps = w[outputs[1], :, ::-1, ::-1]
        for m in range(several):
            planes[inputs] += sums(turned, spread[:, m::several], taps[m::several])

    at_once = max(1, sums_exact.BLOCK // (several * rows * columns))
    images, channels = max(1, at_once // workload.C), min(at_once, workload.C)
    in_threads(fill, product(range(0, workload.B, images), range(0, workload.C, channels)))
    return result


def _of_weight(workload: DepthwiseConv2dWorkload, x: Given, g: Given, *z: Given) -> Array:
    """Return the weight's gradient, followed by the bias's gradient if the workload has a bias.

    The weight's gradient is the correlation of the input with the sums' gradients, the bias's
    gradient the total of the sums' gradients.
    """
    axes = workload.axes(range(4))
    x, g, *values = (each.transpose(axes) for each in (x, g, *z))
    height, width = workload.kernel
    result = np.zeros((workload.out_channels, height, width))
    biases = np.zeros(workload.out_channels)
    near = [np.s_[taps.first : taps.first + taps.count] for taps in workload.used_taps]
    few = workload.used_kernel[0] * workload.used_kernel[1] <= sums_exact.DIRECT_TAPS
    summed = _sum_by_products if few else _sum_by_fft
    pieces = list(blocks(g.shape))
    found: dict[int, tuple[Array, Array]] = {}

    def sum_up(place: int) -> None:
        block = pieces[place]
        gradients = gradient_of_sums(workload, g[block], *(v[block] for v in values))
        window = window_of(workload, x, block)
        found[place] = summed(workload, window, gradients), gradients.sum(axis=(0, 2, 3))

    in_threads(sum_up, range(len(pieces)))
    for place, block in enumerate(pieces):  # in this order, whichever thread ended first
        of_taps, of_bias = found[place]
        result[(block[1], *near)] += of_taps
        biases[block[1]] += of_bias
    if workload.bias:
        return np.concatenate([result.reshape(-1), biases])
    return result[:, None]


def _sum_by_products(workload: DepthwiseConv2dWorkload, window: Array, gradients: Array) -> Array:
    """Return, for each channel and used tap, the sum of gradients times the inputs that it meets.

    A matrix product multiplies all columns of gradients by all columns of inputs. A tap needs one
    diagonal of it. Although most products are not needed, this is quicker than separate sums.
    """
    s, d = workload.stride, workload.dilation
    height, width = workload.used_kernel
    rows = (gradients.shape[2] - 1) * s + 1
    result = np.zeros((window.shape[1], height, width))
    for left in range(0, gradients.shape[3], COLUMNS):
        given = np.ascontiguousarray(gradients[..., left : left + COLUMNS])
        reach = (given.shape[3] - 1) * s + (width - 1) * d + 1
        column = np.arange(given.shape[3])
        for ky in range(height):
            met = window[:, :, ky * d : ky * d + rows : s, left * s : left * s + reach]
            product_of_all = np.matmul(met.swapaxes(2, 3), given).sum(axis=0)
            for kx in range(width):
                result[:, ky, kx] += product_of_all[:, kx * d + column * s, column].sum(axis=1)
    return result


def _sum_by_fft(workload: DepthwiseConv2dWorkload, window: Array, g: Array) -> Array:
    """Return the sums of ``_sum_by_products`` by Fourier transforms.

    Shifts that wrap around lie beyond the taps.
    """
    s, d = workload.stride, workload.dilation
    spread = np.zeros((*g.shape[:2], *((n - 1) * s + 1 for n in g.shape[2:])))
    spread[:, :, ::s, ::s] = g
    height, width = ((taps - 1) * d + 1 for taps in workload.used_kernel)
    return correlate_by_fft(window, spread, axes=2, over=(0,))[:, :height:d, :width:d]
