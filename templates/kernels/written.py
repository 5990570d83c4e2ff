"""Programs written in CUDA: a source file, filled in, as a TIR function that calls it once a
thread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from templates.kernels.parameters import buffers
from templates.workload import Workload

ENOUGH_REGISTERS = """
// TVM bounds a block's threads, not the blocks of a unit, and ptxas then keeps to as few registers
// as let a unit hold all the threads it can; bounded to one block it takes what the code asks for.
#undef __launch_bounds__
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads, 1)))
"""
"""At the end of a source."""


def filled(values: Mapping[str, object], *paths: Path) -> str:
    """The files' text, one after the other, with each ``@NAME@`` replaced; booleans as 1 and 0."""
    source = "".join(path.read_text() for path in paths)
    for name, value in values.items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        source = source.replace(f"@{name}@", text)
    return source


def program(
    workload: Workload, function: str, source: str, blocks: int, threads: int, words: int
) -> Any:
    """A grid of ``blocks`` by ``threads`` that calls ``function`` of the source with the workload's
    arguments and ``shared``, ``words`` 32-bit words of a block's shared memory."""
    with IRBuilder() as builder, ir.prim_func(s_tir=True):
        ir.func_name("main")
        ir.func_attr({"tirx.noalias": True})
        pointers = [buffer.data for buffer in buffers(workload)]
        with ir.sblock("root"):
            ir.reads()
            ir.writes()
            with (
                ir.thread_binding(0, blocks, thread="blockIdx.x"),
                ir.thread_binding(0, threads, thread="threadIdx.x"),
                ir.sblock("written"),
            ):
                ir.reads()
                ir.writes()
                memory = ir.sblock_alloc_buffer((words,), "uint32", scope="shared.dyn")
                shared = IRBuilder.name("shared", memory)
                call = ir.cuda.func_call(function, *pointers, shared.data, source_code=source)
                ir.evaluate(call)
    return builder.get()
