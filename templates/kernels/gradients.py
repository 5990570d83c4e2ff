"""TE computations that programs of gradients share, whatever the operator. Imports TVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx

from templates.argument import Argument
from templates.ceil_div import ceil_div
from templates.epilogue import WithEpilogue
from templates.kernels.conversions import narrowed


def inside(condition: Any, value: Any) -> Any:
    """Return the float32 value, or 0 without reading anything if the condition does not hold."""
    return tirx.if_then_else(condition, value, tirx.const(0.0, "float32"))


def sums_of_input(
    workload: WithEpilogue, given: Sequence[Any], term: Callable[..., Any], axes: Any
) -> Any:
    """Return a program whose output at each place is the sum of ``term(*place)`` over ``axes``."""
    return te.create_prim_func([*given, input_summed(workload, workload.output, term, axes)])


def input_summed(
    workload: WithEpilogue, output: Argument, term: Callable[..., Any], axes: Any, name: str = "y"
) -> Any:
    """Return the output of :func:`sums_of_input` as a TE tensor of this ``name``."""
    shape = output.shape
    sums = te.compute(shape, lambda *at: te.sum(term(*at), axis=axes), name=_before(name, "sums"))
    return te.compute(shape, lambda *at: narrowed(sums[at], workload.dtype), name=name)


def sums_of_weight(
    workload: WithEpilogue, given: Sequence[Any], terms: int, term: Callable[[Any, Any], Any]
) -> Any:
    """Return a program whose outputs are the sums of ``term(n, output)`` over n < ``terms``.

    ``output`` is a place in the flattened weight; the biases follow it. The terms are added up in
    two steps of about sqrt(terms) each, because one long float32 sum would lose the last digits.
    """
    return te.create_prim_func([*given, weight_summed(workload, workload.output, terms, term)])


def weight_summed(
    workload: WithEpilogue,
    output: Argument,
    terms: int,
    term: Callable[[Any, Any], Any],
    name: str = "y",
) -> Any:
    """Return the output of :func:`sums_of_weight` as a TE tensor of this ``name``."""
    shape = output.shape
    size = 1 << ceil_div((terms - 1).bit_length(), 2)
    few = te.reduce_axis((0, size), name="few")
    part = te.reduce_axis((0, ceil_div(terms, size)), name="part")
    outputs = math.prod(shape)

    def summed(n: Any, p: Any) -> Any:
        at = p * size + few
        return te.sum(inside(at < terms, term(at, n)), axis=[few])

    partial = te.compute((outputs, ceil_div(terms, size)), summed, name=_before(name, "partial"))
    sums = te.compute(
        (outputs,), lambda n: te.sum(partial[n, part], axis=[part]), name=_before(name, "sums")
    )

    def stored(*at: Any) -> Any:
        n = at[0]
        for extent, i in zip(shape[1:], at[1:], strict=True):
            n = n * extent + i
        return narrowed(sums[n], workload.dtype)

    return te.compute(shape, stored, name=name)


def _before(name: str, stage: str) -> str:
    """Return the name of a stage that computes the output ``name``.

    The stages of a single output have no suffix, because stored traces name them so.
    """
    return stage if name == "y" else f"{stage}_{name}"
