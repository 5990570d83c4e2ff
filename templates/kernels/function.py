"""A program's only function and its blocks, as contexts of the IR builder. Imports TVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from templates.kernels.parameters import buffers
from templates.workload import Workload


@contextmanager
def main_function(workload: Workload) -> Iterator[tuple[IRBuilder, list[Any]]]:
    """Open the function ``main`` of a workload's arguments.

    The context gives the builder and the buffers of all arguments. The builder returns the function
    once the context is left.
    """
    with IRBuilder() as builder, ir.prim_func(s_tir=True):
        ir.func_name("main")
        ir.func_attr({"tirx.noalias": True})
        arguments = buffers(workload)
        inputs = len(workload.inputs)
        with ir.sblock("root"):
            ir.reads(*map(_whole, arguments[:inputs]))
            ir.writes(*map(_whole, arguments[inputs:]))
            yield builder, arguments


@contextmanager
def opaque_block(name: str) -> Iterator[None]:
    """Open a block that does not declare what it reads and writes."""
    with ir.sblock(name):
        ir.reads()
        ir.writes()
        yield


def _whole(buffer: Any) -> Any:
    """Return all of a buffer, as a region that a block reads or writes."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]
