"""Programs written in CUDA: a filled-in source, and a TIR function that calls it once a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from templates.argument import workspace_of
from templates.epilogue import WithEpilogue
from templates.kernels.function import opaque_block
from templates.kernels.launches.early_launch import LAUNCHES_WAIT, WAIT_SOURCE, wait_for_launch
from templates.kernels.parameters import buffers
from templates.kernels.tensor_map import ALIGNMENT, TensorMap, encode
from templates.workload import Workload

ELEMENTS = Path(__file__).with_name("elements.cu")
EPILOGUE = Path(__file__).with_name("epilogue.cu")
BARRIERS = Path(__file__).with_name("barriers.cu")
NEXT_LAUNCH = Path(__file__).with_name("launches") / "next_launch.cu"
TENSOR_COPIES = Path(__file__).with_name("tensor_copies.cu")
DERIVATIVE = Path(__file__).with_name("derivative.cu")
COARSE = 1e-3  # least max_error for activations by an instruction with a relative error of 2^-11
COARSE_DERIVATIVES = 4e-3  # the same for their derivatives
STORES = {"cached": "", "streaming": ".cs"}

_RESIDENT = """
// TVM bounds a block's threads, not the blocks of a unit, and ptxas then keeps to as few registers
// as let a unit hold all the threads it can; bounded to one block it takes what the code asks for.
#undef __launch_bounds__
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads, @RESIDENT@)))
"""


def render(values: Mapping[str, object], *paths: Path) -> str:
    """Return the files' text, joined, with each ``@NAME@`` replaced; booleans become 1 and 0."""
    source = "".join(path.read_text() for path in paths)
    for name, value in values.items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        source = source.replace(f"@{name}@", text)
    return source


def knobs(config: Mapping[str, Any]) -> dict[str, object]:
    """Return a configuration's knobs by their names in capitals, as sources name them."""
    return {name.upper(): value for name, value in config.items()}


def resident(blocks: int | str) -> str:
    """Return the end of a source that lets a thread take more registers.

    A thread may then take so many that a unit can still hold ``blocks`` blocks at the same time.
    ``blocks`` may be an expression of a launch's ``threads``, if the launches differ.
    """
    return _RESIDENT.replace("@RESIDENT@", str(blocks))


def source_of(config: Mapping[str, Any], values: Mapping[str, object], *paths: Path) -> str:
    """Return the files' text, filled in, with the end that the knob ``resident`` asks for."""
    return render(values, *paths) + resident(config["resident"])


def include_once(name: str, source: str, blocks: int | str) -> str:
    """Return a source, with :func:`resident`, that takes effect once in a program of launches."""
    return f"#ifndef {name}\n#define {name}\n{source}{resident(blocks)}#endif\n"


def elements(dtype: str, stores: str, kept: bool) -> dict[str, object]:
    """Return the values that fill in ``elements.cu``.

    ``stores`` is one of STORES. ``kept`` says whether loads must stay where the source has them.
    """
    return {
        "DTYPE": dtype,
        "IS_FLOAT": dtype == "float32",
        "IS_BF16": dtype == "bfloat16",
        "LOAD": "" if kept else ".nc",
        "STORE": STORES[stores],
    }


def epilogue(workload: WithEpilogue) -> dict[str, object]:
    """Return the values that fill in ``epilogue.cu``, and a function that uses it.

    ADDED are the function's parameters for bias and residual. BIAS and RESIDUAL are their names, or
    null pointers if they are absent.
    """
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
        "IS_SILU": workload.activation == "silu",
        "IS_COARSE": workload.max_error >= COARSE,
    }


def derivative(workload: WithEpilogue) -> dict[str, object]:
    """Return the values that fill in ``derivative.cu``, and a gradient's function that uses it.

    GIVEN is the function's parameter for the sums, and SUMS its name, or a null pointer if there is
    no activation.
    """
    is_there = workload.activation != "none"
    return {
        "HAS_DERIVATIVE": is_there,
        "GIVEN": "const void* __restrict__ sums, " if is_there else "",
        "SUMS": "sums" if is_there else "nullptr",
        "ACTIVATION": workload.activation,
        "IS_COARSE": workload.max_error >= COARSE_DERIVATIVES,
    }


@dataclass(frozen=True)
class Launch:
    """A grid of ``blocks`` by ``threads`` that calls a ``function`` of a source.

    The function takes the addresses of ``maps``, the program's arguments and, if ``words`` is not
    0, a pointer ``shared`` to that many 32-bit words of shared memory. If it ``waits_itself`` for
    the launch before, it must do so before it uses memory.
    """

    function: str
    blocks: int
    threads: int
    words: int
    maps: tuple[TensorMap, ...] = ()
    waits_itself: bool = False


def program(
    workload: Workload, function: str, source: str, blocks: int, threads: int, words: int = 0
) -> Any:
    """Return a program of one launch of a function, which takes the workload's arguments."""
    return program_of_launches(workload, source, [Launch(function, blocks, threads, words)])


def program_of_launches(
    workload: Workload, source: str, launches: Sequence[Launch], workspace: int = 0
) -> Any:
    """Return a program of several launches, one after the other.

    Their functions take the workload's arguments, and after them the workspace if it has any
    elements.
    """
    source = WAIT_SOURCE + source
    with IRBuilder() as builder, ir.prim_func(s_tir=True):
        ir.func_name("main")
        ir.func_attr({"tirx.noalias": True, LAUNCHES_WAIT: True})
        pointers = [buffer.data for buffer in buffers(workload)]
        pointers += [
            ir.arg(each.symbol, ir.buffer(each.shape, each.dtype)).data
            for each in workspace_of(workspace)
        ]
        with opaque_block("root"):
            mapped = {a.symbol: (a, p) for a, p in zip(workload.arguments, pointers, strict=False)}
            for launch in launches:
                maps = [encode(each, *mapped[each.symbol]) for each in launch.maps]
                _launch(launch, [*maps, *pointers], source)
    return builder.get()


# A change here changes the program of each template that is written in CUDA: raise their versions.
def _launch(launch: Launch, pointers: Sequence[Any], source: str) -> None:
    with (
        ir.thread_binding(0, launch.blocks, thread="blockIdx.x"),
        ir.thread_binding(0, launch.threads, thread="threadIdx.x"),
        opaque_block(launch.function),
    ):
        if not launch.waits_itself:
            wait_for_launch()
        given = list(pointers)
        if launch.words:
            memory = ir.sblock_alloc_buffer(
                (launch.words,),
                "uint32",
                scope="shared.dyn",
                align=ALIGNMENT if launch.maps else -1,
            )
            given.append(IRBuilder.name("shared", memory).data)
        ir.evaluate(ir.cuda.func_call(launch.function, *given, source_code=source))
