"""What programs of gradients share, whatever the operator. Imports TVM."""

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
    """The float32 value, or 0 if the condition does not hold; nothing is read then."""
    return tirx.if_then_else(condition, value, tirx.const(0.0, "float32"))


def sums_of_input(
    workload: WithEpilogue, given: Sequence[Any], term: Callable[..., Any], axes: Any
) -> Any:
    """A program whose outputs are the sums of ``term(*place)`` over the axes."""
    return te.create_prim_func([*given, input_summed(workload, workload.output, term, axes)])


def input_summed(
    workload: WithEpilogue, output: Argument, term: Callable[..., Any], axes: Any, name: str = "y"
) -> Any:
    """The output of such a program, by its name there."""
    shape = output.shape
    sums = te.compute(shape, lambda *at: te.sum(term(*at), axis=axes), name=_before(name, "sums"))
    return te.compute(shape, lambda *at: narrowed(sums[at], workload.dtype), name=name)


def sums_of_weight(
    workload: WithEpilogue, given: Sequence[Any], terms: int, term: Callable[[Any, Any], Any]
) -> Any:
    """A program whose outputs are the sums of ``term(n, output)`` over so many n; an output is the
    place in the weight as if it had one dimension, behind which are the biases. Sums of about as
    many as there are of them are added up: one sum of so many terms loses their last digits."""
    return te.create_prim_func([*given, weight_summed(workload, workload.output, terms, term)])


def weight_summed(
    workload: WithEpilogue,
    output: Argument,
    terms: int,
    term: Callable[[Any, Any], Any],
    name: str = "y",
) -> Any:
    """The output of such a program, by its name there."""
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
    """A stage before that output. Those of a single one have had these names in stored traces."""
    return stage if name == "y" else f"{stage}_{name}"
