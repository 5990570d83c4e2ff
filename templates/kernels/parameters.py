"""The parameters of a program: its workload's arguments. Imports TVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te
from tvm.tirx.script.builder import ir

from templates.workload import Workload


def placeholders(workload: Workload) -> list[Any]:
    """For a TE computation: what is given, in the workload's order."""
    return [te.placeholder(a.shape, a.dtype, name=a.symbol) for a in workload.given]


def buffers(workload: Workload) -> list[Any]:
    """For a function that the IR builder makes: what is given, then the outputs."""
    return [ir.arg(a.symbol, ir.buffer(a.shape, a.dtype)) for a in workload.arguments]


def whole(buffer: Any) -> Any:
    """All of a buffer, as what a block reads or writes."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


def flat(workload: Workload, given: Sequence[Any]) -> list[Any]:
    """The buffers of all arguments in one dimension each, in the same memory."""
    return [
        ir.decl_buffer((argument.elements,), argument.dtype, data=buffer.data)
        for argument, buffer in zip(workload.arguments, given, strict=True)
    ]
