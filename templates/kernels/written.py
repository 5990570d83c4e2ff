"""Programs written in CUDA: a source file, filled in, as a TIR function that calls it once a
thread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from templates.epilogue import WithEpilogue
from templates.kernels.parameters import buffers
from templates.workload import Workload

ELEMENTS = Path(__file__).with_name("elements.cu")
EPILOGUE = Path(__file__).with_name("epilogue.cu")
COARSE = 4e-3  # a max_error that admits instructions right to 2^-11
STORES = {"cached": "", "streaming": ".cs"}

_RESIDENT = """
// TVM bounds a block's threads, not the blocks of a unit, and ptxas then keeps to as few registers
// as let a unit hold all the threads it can; bounded to one block it takes what the code asks for.
#undef __launch_bounds__
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads, @RESIDENT@)))
"""


def filled(values: Mapping[str, object], *paths: Path) -> str:
    """The files' text, one after the other, with each ``@NAME@`` replaced; booleans as 1 and 0."""
    source = "".join(path.read_text() for path in paths)
    for name, value in values.items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        source = source.replace(f"@{name}@", text)
    return source


def resident(blocks: int) -> str:
    """For the end of a source: a thread may take as many registers as let a unit hold that many
    blocks at the same time."""
    return _RESIDENT.replace("@RESIDENT@", str(blocks))


def elements(dtype: str, stores: str, kept: bool) -> dict[str, object]:
    """What ``elements.cu`` is filled in with. ``stores`` is one of STORES; ``kept`` whether loads
    stay where the source has them."""
    return {
        "DTYPE": dtype,
        "IS_FLOAT": dtype == "float32",
        "IS_BF16": dtype == "bfloat16",
        "LOAD": "" if kept else ".nc",
        "STORE": STORES[stores],
    }


def epilogue(workload: WithEpilogue) -> dict[str, object]:
    """What ``epilogue.cu`` is filled in with, and a function that uses it: its parameters for what
    is ADDED, and the names of these or null pointers."""
    added = {"BIAS": workload.bias, "RESIDUAL": workload.residual}
    names = {name: name.lower() if there else "nullptr" for name, there in added.items()}
    parameters = [f"const void* __restrict__ {names[name]}, " for name in added if added[name]]
    return {
        **{f"HAS_{name}": there for name, there in added.items()},
        "HAS_EPILOGUE": workload.has_epilogue,
        **names,
        "ADDED": "".join(parameters),
        "ACTIVATION": workload.activation,
        "IS_COARSE": workload.max_error >= COARSE,
    }


def program(
    workload: Workload, function: str, source: str, blocks: int, threads: int, words: int
) -> Any:
    """A grid of ``blocks`` by ``threads`` that calls ``function`` of the source with the workload's
    arguments and ``shared``, ``words`` 32-bit words of a block's shared memory, if it has any."""
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
                if words:
                    memory = ir.sblock_alloc_buffer((words,), "uint32", scope="shared.dyn")
                    pointers.append(IRBuilder.name("shared", memory).data)
                call = ir.cuda.func_call(function, *pointers, source_code=source)
                ir.evaluate(call)
    return builder.get()
