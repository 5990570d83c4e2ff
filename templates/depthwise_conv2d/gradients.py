"""TE computations of the gradients of depthwise 2-D convolution."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import gradient_of_sums
from templates.kernels.gradients import inside, sums_of_input, sums_of_weight
from templates.kernels.parameters import placeholders


def computation(workload: DepthwiseConv2dWorkload) -> Any:
    """Return the unscheduled program, a TIR function."""
    return _of_weight(workload) if workload.direction == "backward_weight" else _of_input(workload)


def _of_input(workload: DepthwiseConv2dWorkload) -> Any:
    """Return the input's gradient: for each element, the sum over the outputs that it reaches."""
    s, d, several = workload.stride, workload.dilation, workload.multiplier
    (height, width), (top, left, _, _) = workload.kernel, workload.pads
    rows, columns = workload.out_height, workload.out_width
    g, w, *z = placeholders(workload)
    m = te.reduce_axis((0, several), name="m")
    ky, kx = te.reduce_axis((0, height), name="ky"), te.reduce_axis((0, width), name="kx")

    def term(*at: Any) -> Any:
        b, c, i, j = workload.axes(at)
        row, column, channel = i + top - ky * d, j + left - kx * d, c * several + m
        source = workload.place(b, channel, tirx.indexdiv(row, s), tirx.indexdiv(column, s))
        reached = [row >= 0, row < rows * s, column >= 0, column < columns * s]
        if s > 1:
            reached += [tirx.indexmod(row, s) == 0, tirx.indexmod(column, s) == 0]
        gradient = gradient_of_sums(workload, g[source], *(each[source] for each in z))
        weight = widened(w[channel, 0, ky, kx], workload.dtype)
        return inside(tirx.all(*reached), gradient * weight)

    return sums_of_input(workload, [g, w, *z], term, [m, ky, kx])


def _of_weight(workload: DepthwiseConv2dWorkload) -> Any:
    """Return the weight's gradient: for each tap, the sum over all outputs of its channel."""
    s, d = workload.stride, workload.dilation
    (height, width), (top, left, _, _) = workload.kernel, workload.pads
    rows, columns = workload.out_height, workload.out_width
    x, g, *z = placeholders(workload)

    def term(n: Any, output: Any) -> Any:
        b, i, j = n // (rows * columns), n // columns % rows, n % columns
        weights = workload.out_channels * height * width
        c = output // (height * width)
        row = i * s + output // width % height * d - top
        column = j * s + output % width * d - left
        source = workload.place(b, c // workload.multiplier, row, column)
        sample = inside(
            tirx.all(row >= 0, row < workload.H, column >= 0, column < workload.W),
            widened(x[source], workload.dtype),
        )
        if workload.bias:
            is_weight = output < weights
            c = tirx.Select(is_weight, c, output - weights)
            sample = tirx.if_then_else(is_weight, sample, tirx.const(1.0, "float32"))
        place = workload.place(b, c, i, j)
        return sample * gradient_of_sums(workload, g[place], *(each[place] for each in z))

    return sums_of_weight(workload, [x, g, *z], workload.taps, term)
