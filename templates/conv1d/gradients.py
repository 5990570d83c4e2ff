"""The gradient of the input, or of weight and bias, of 1-D convolution as a TE computation."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import gradient_of_sums
from templates.kernels.gradients import inside, sums_of_input, sums_of_weight
from templates.kernels.parameters import placeholders


def computation(workload: Conv1dWorkload) -> Any:
    """Return the unscheduled program of backward_input or backward_weight, a TIR function."""
    return (
        _weight_gradient(workload)
        if workload.direction == "backward_weight"
        else _input_gradient(workload)
    )


def _input_gradient(workload: Conv1dWorkload) -> Any:
    """Return the program of the input's gradient. For each sample it adds up, over all taps, the
    tap times the gradient of the sum in which the tap meets the sample."""
    s, several = workload.stride, workload.multiplier
    g, w, *z = placeholders(workload)
    f = te.reduce_axis((0, several), name="f")
    t = te.reduce_axis((0, workload.N), name="t")

    def term(*at: Any) -> Any:
        b, c, i = workload.axes(at)
        place = i + workload.left - t * workload.dilation
        output, among = (f, c) if workload.is_dense else (c * several + f, 0)
        source = workload.place(b, output, tirx.indexdiv(place, s))
        weight = w[workload.weight_place(output, among, tap(workload, t))]
        reached = [place >= 0, place < workload.length * s]
        if s > 1:
            reached.append(tirx.indexmod(place, s) == 0)
        gradient = gradient_of_sums(workload, g[source], *(each[source] for each in z))
        return inside(tirx.all(*reached), gradient * widened(weight, workload.dtype))

    return sums_of_input(workload, [g, w, *z], term, [f, t])


def _weight_gradient(workload: Conv1dWorkload) -> Any:
    """Return the program of the weight's gradient: for each tap, the sum over the signals and all
    outputs of its channel. The bias's gradient follows it, if the workload has a bias."""
    length, N, summed = workload.length, workload.N, workload.summed
    x, g, *z = placeholders(workload)

    def term(n: Any, output: Any) -> Any:
        b, i = n // length, n % length
        weights = workload.out_channels * summed * N
        f, c = output // (summed * N), output // N % summed
        if not workload.is_dense:
            c = f // workload.multiplier
        place = i * workload.stride + tap(workload, output % N) * workload.dilation - workload.left
        sample = inside(
            tirx.all(place >= 0, place < workload.M),
            widened(x[workload.place(b, c, place)], workload.dtype),
        )
        if workload.bias:
            is_weight = output < weights
            f = tirx.Select(is_weight, f, output - weights)
            sample = tirx.if_then_else(is_weight, sample, tirx.const(1.0, "float32"))
        source = workload.place(b, f, i)
        return sample * gradient_of_sums(workload, g[source], *(each[source] for each in z))

    return sums_of_weight(workload, [x, g, *z], workload.taps, term)


def tap(workload: Conv1dWorkload, t: Any) -> Any:
    """Return the index in the weight of tap t in correlation order. The mapping is its own
    inverse."""
    return workload.N - 1 - t if workload.kind == "convolve" else t
