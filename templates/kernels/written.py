"""Programs written in CUDA: a source file, filled in, as a TIR function that calls it once a
thread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

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
    """A grid of ``blocks`` by ``threads`` that calls ``function(input, weight, output, shared)``
    of the source, ``shared`` being ``words`` 32-bit words of a block's shared memory."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer(workload.input_shape, workload.dtype),
        w: T.Buffer(workload.weight_shape, workload.dtype),
        y: T.Buffer(workload.output_shape, workload.dtype),
    ):
        T.func_attr({"tirx.noalias": True})
        for _ in T.thread_binding(blocks, thread="blockIdx.x"):
            for _ in T.thread_binding(threads, thread="threadIdx.x"):
                with T.sblock("written"):
                    T.reads()
                    T.writes()
                    shared = T.sblock_alloc_buffer((words,), "uint32", scope="shared.dyn")
                    T.evaluate(
                        T.cuda.func_call(
                            function, x.data, w.data, y.data, shared.data, source_code=source
                        )
                    )

    return main
