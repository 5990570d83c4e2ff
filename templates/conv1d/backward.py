"""All gradients of 1-D convolution in one program (direction backward), as a TE computation."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from templates.conv1d.gradients import tap
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.conversions import widened
from templates.kernels.epilogue import activation_derivative
from templates.kernels.gradients import input_summed, inside, weight_summed
from templates.kernels.parameters import placeholders


def computation(workload: Conv1dWorkload) -> Any:
    """Return the unscheduled program, a TIR function.

    Each output computes the sums and their gradients again, in stages of its own.
    """
    length, dilation = workload.length, workload.dilation
    x, g, w, *biases = placeholders(workload)

    def met(b: Any, c: Any, i: Any, t: Any) -> Any:
        """Return the sample that tap t meets at output i, or 0 if it is padding."""
        place = i + t * dilation - workload.left
        within = tirx.all(place >= 0, place < workload.M)
        return inside(within, widened(x[workload.place(b, c, place)], workload.dtype))

    def weight(c: Any, t: Any) -> Any:
        return widened(w[workload.weight_place(c, 0, tap(workload, t))], workload.dtype)

    def derived(name: str) -> Any:
        """Return a function that maps a place to the gradient of its sum. Only the output ``name``
        reads the stages that compute it, so they are named after that output."""
        if workload.activation == "none":
            return lambda at: widened(g[at], workload.dtype)
        t = te.reduce_axis((0, workload.N), name="k")

        def summed(*at: Any) -> Any:
            b, c, i = workload.axes(at)
            return te.sum(met(b, c, i, t) * weight(c, t), axis=[t])

        z = te.compute(g.shape, summed, name=f"z_{name}")

        def value(*at: Any) -> Any:
            sums = z[at]
            if biases:
                sums += widened(biases[0][workload.axes(at)[1]], workload.dtype)
            return widened(g[at], workload.dtype) * activation_derivative(workload, sums)

        s = te.compute(g.shape, value, name=f"s_{name}")
        return lambda at: s[at]

    of_input, of_weight, of_bias = (derived(name) for name in ("dx", "dw", "db"))
    t = te.reduce_axis((0, workload.N), name="t")

    def input_term(*at: Any) -> Any:
        b, c, i = workload.axes(at)
        place = i + workload.left - t * dilation
        reached = tirx.all(place >= 0, place < length)
        there = tirx.max(0, tirx.min(place, length - 1))  # TVM computes it even if not reached
        return inside(reached, of_input(workload.place(b, c, there)) * weight(c, t))

    def weight_term(n: Any, output: Any) -> Any:
        b, c, i = n // length, output // workload.N, n % length
        sample = met(b, c, i, tap(workload, output % workload.N))
        return sample * of_weight(workload.place(b, c, i))

    def bias_term(n: Any, output: Any) -> Any:
        return of_bias(workload.place(n // length, output, n % length))

    terms, (dx, dw, *db) = workload.taps, workload.outputs
    outputs = [
        input_summed(workload, dx, input_term, [t], dx.symbol),
        weight_summed(workload, dw, terms, weight_term, dw.symbol),
        *(weight_summed(workload, each, terms, bias_term, each.symbol) for each in db),
    ]
    return te.create_prim_func([x, g, w, *biases, *outputs])
