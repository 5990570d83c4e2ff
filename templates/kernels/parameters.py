"""Parameters of a program: its workload's arguments. Imports TVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te
from tvm.tirx.script.builder import ir

from templates.workload import Workload


def placeholders(workload: Workload) -> list[Any]:
    """Return the arguments that a TE computation reads, in the workload's order."""
    return [te.placeholder(a.shape, a.dtype, name=a.symbol) for a in workload.inputs]


def buffers(workload: Workload) -> list[Any]:
    """Return the buffers of a function that the IR builder makes: all arguments in their order."""
    return [ir.arg(a.symbol, ir.buffer(a.shape, a.dtype)) for a in workload.arguments]


def flat(workload: Workload, given: Sequence[Any]) -> list[Any]:
    """Return one-dimensional buffers of all arguments, in the same memory as the ``given`` ones."""
    return [
        ir.decl_buffer((argument.elements,), argument.dtype, data=buffer.data)
        for argument, buffer in zip(workload.arguments, given, strict=True)
    ]
