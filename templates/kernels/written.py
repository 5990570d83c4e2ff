"""Programs written in CUDA: a source file, filled in, as a TIR function that calls it once a
thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from templates.argument import workspace_of
from templates.epilogue import WithEpilogue
from templates.kernels.parameters import buffers
from templates.workload import Workload

ELEMENTS = Path(__file__).with_name("elements.cu")
EPILOGUE = Path(__file__).with_name("epilogue.cu")
DERIVATIVE = Path(__file__).with_name("derivative.cu")
COARSE = 1e-3  # a max_error that admits activations by an instruction right to 2^-11
COARSE_SLOPES = 4e-3  # and their derivatives
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


def knobs(config: Mapping[str, Any]) -> dict[str, object]:
    """A configuration's knobs by their names in capitals, as sources name them."""
    return {name.upper(): value for name, value in config.items()}


def resident(blocks: int | str) -> str:
    """For the end of a source: a thread may take as many registers as let a unit hold that many
    blocks at the same time; an expression of a launch's ``threads`` where launches differ."""
    return _RESIDENT.replace("@RESIDENT@", str(blocks))


def once(name: str, source: str, blocks: int | str) -> str:
    """The source for several launches, which a program then has once, with :func:`resident`."""
    return f"#ifndef {name}\n#define {name}\n{source}{resident(blocks)}#endif\n"


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
        "IS_RELU": workload.activation in ("relu", "relu6"),
        "IS_RELU6": workload.activation == "relu6",
        "IS_COARSE": workload.max_error >= COARSE,
    }


def derivative(workload: WithEpilogue) -> dict[str, object]:
    """What ``derivative.cu`` is filled in with, and a function of a gradient that uses it: its
    parameter for the SUMS, and its name or a null pointer."""
    is_there = workload.activation != "none"
    return {
        "HAS_DERIVATIVE": is_there,
        "GIVEN": "const void* __restrict__ sums, " if is_there else "",
        "SUMS": "sums" if is_there else "nullptr",
        "ACTIVATION": workload.activation,
        "IS_COARSE": workload.max_error >= COARSE_SLOPES,
    }


@dataclass(frozen=True)
class Launch:
    """A grid of ``blocks`` by ``threads`` that calls ``function`` of a source with the program's
    arguments and ``shared``, ``words`` 32-bit words of a block's shared memory, if it has any."""

    function: str
    blocks: int
    threads: int
    words: int


def program(
    workload: Workload, function: str, source: str, blocks: int, threads: int, words: int = 0
) -> Any:
    """One launch of a function of the source, which takes the workload's arguments."""
    return launched(workload, source, [Launch(function, blocks, threads, words)])


def launched(
    workload: Workload, source: str, launches: Sequence[Launch], workspace: int = 0
) -> Any:
    """The launches, one after the other, of functions of the source. They take the workload's
    arguments, then the workspace, if it has any elements."""
    with IRBuilder() as builder, ir.prim_func(s_tir=True):
        ir.func_name("main")
        ir.func_attr({"tirx.noalias": True})
        pointers = [buffer.data for buffer in buffers(workload)]
        pointers += [
            ir.arg(each.symbol, ir.buffer(each.shape, each.dtype)).data
            for each in workspace_of(workspace)
        ]
        with ir.sblock("root"):
            ir.reads()
            ir.writes()
            for launch in launches:
                _launch(launch, pointers, source)
    return builder.get()


def _launch(launch: Launch, pointers: Sequence[Any], source: str) -> None:
    with (
        ir.thread_binding(0, launch.blocks, thread="blockIdx.x"),
        ir.thread_binding(0, launch.threads, thread="threadIdx.x"),
        ir.sblock(launch.function),
    ):
        ir.reads()
        ir.writes()
        given = list(pointers)
        if launch.words:
            memory = ir.sblock_alloc_buffer((launch.words,), "uint32", scope="shared.dyn")
            given.append(IRBuilder.name("shared", memory).data)
        ir.evaluate(ir.cuda.func_call(launch.function, *given, source_code=source))
