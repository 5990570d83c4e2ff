"""Emulation of CUDA sources on a CPU, with one fiber for each thread of a block.

It shows what a source computes on a machine without a GPU. ``emulated.h`` defines CUDA's functions
for workloads without an activation, and for gradients.
"""

import ctypes
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import templates
from templates.dtypes import in_numpy
from templates.kernels.cuda_source import Launch
from templates.workload import Workload
from tests.templates.compiled import cpu_target
from tests.templates.once import once
from tuner.build import build_cache, linker
from tuner.measure.cases import Array
from tuner.measure.check import relative_error

HEADER = Path(__file__).with_suffix(".h")
NATIVE = ("-march=native", "-ffp-contract=off")
"""Without the first option every ``fmaf`` would be a function call; with the second the compiler
fuses no other sum."""


def error(
    workload: Workload,
    source: str,
    launches: Sequence[Launch],
    floats: int = 0,
    apart: int = 0,
) -> float:
    """Return the relative error of the only output, on random normal inputs.

    The inputs begin ``apart`` elements behind a vector's boundary. The workspace has ``floats``
    elements.
    """
    rng, given = np.random.default_rng(0), []
    for argument in workload.inputs:
        memory = np.empty(argument.elements + apart, in_numpy(argument.dtype))[apart:]
        given.append(memory.reshape(argument.shape))
        given[-1][...] = rng.standard_normal(argument.shape)
    output = run(workload, source, launches, given, floats)
    exact = templates.operator(workload.operator).reference(workload, *given)
    return relative_error(output, exact, None)


def run(
    workload: Workload,
    source: str,
    launches: Sequence[Launch],
    given: Sequence[Array],
    floats: int,
    optimised: int = 0,
) -> Array:
    """Return the only output of the source's launches for the inputs ``given``.

    The workspace has ``floats`` elements; it and the output are NaN until they are written.
    ``optimised`` is the compiler's level, 0 to 2: a higher one pays if a source computes much.
    """
    (output,) = outputs(workload, source, launches, given, floats, optimised)
    return output


def outputs(
    workload: Workload,
    source: str,
    launches: Sequence[Launch],
    given: Sequence[Array],
    floats: int,
    optimised: int = 0,
) -> list[Array]:
    """Return all outputs, in the order of ``workload.outputs``; otherwise as :func:`run`."""
    symbols = [argument.symbol for argument in workload.arguments]
    facts = {
        "FLOAT": workload.dtype == "float32",
        "HALF": workload.dtype == "float16",
        "BIAS": "b" in symbols,
        "RESIDUAL": "r" in symbols,
    }
    defined = "".join(f"#define EMULATED_{name} {int(is_so)}\n" for name, is_so in facts.items())
    mapped = {a.symbol: a.shape for a in workload.arguments}
    library = _library(
        f"{defined}{HEADER.read_text()}{source}",
        launches,
        [*symbols, *(["workspace"] if floats else [])],
        mapped,
        optimised,
    )
    found = [np.full(each.shape, np.nan, in_numpy(each.dtype)) for each in workload.outputs]
    tensors = [*given, *found, np.full(max(1, floats), np.nan, "f4")]
    pointers = (ctypes.c_void_p * len(tensors))(*(each.ctypes.data for each in tensors))
    library.run.restype = ctypes.c_char_p
    fault = library.run(pointers)
    assert fault is None, fault.decode()
    return found


def _library(
    source: str,
    launches: Sequence[Launch],
    symbols: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]],
    optimised: int,
) -> ctypes.CDLL:
    """Return a library whose ``run(tensors)`` does the launches one after another.

    ``tensors`` is an array of pointers in the order of ``symbols``. It returns null, or
    what is wrong. ``shapes`` are those of the arguments.
    """
    calls = ""
    for each in launches:
        maps = [f"emulated_{one.symbol}_map" for one in each.maps]
        for name, one in zip(maps, each.maps, strict=True):
            extents, box = (", ".join(map(str, n[::-1])) for n in (shapes[one.symbol], one.box))
            calls += f"  static emulated_map {name};\n"
            calls += f"  {name} = {{(char*){one.symbol}, {{{extents}}}, {{{box}}}}};\n"
        addresses = [f"(tensor_map)&{name}" for name in maps]
        given = ", ".join([*addresses, *symbols, *(["emulated_shared"] if each.words else [])])
        shape = f"{each.blocks}, {each.threads}, {each.words}"
        calls += f"  emulated_launch({shape}, [] {{ {each.function}({given}); }});\n"
    taken = "".join(f"  {symbol} = tensors[{n}];\n" for n, symbol in enumerate(symbols))
    text = f"""{source}
static void {", ".join(f"*{symbol}" for symbol in symbols)};
extern "C" const char* run(void** tensors) {{
{taken}{calls}  return emulated_fault;
}}
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "emulated.so"

        def compiled() -> build_cache.Entry:
            (code := path.with_suffix(".cpp")).write_text(text)
            options = ["-std=c++17", f"-O{optimised}", *NATIVE, "-w", "-shared", "-fPIC"]
            command = [linker.linker(), *options, str(code), "-o", str(path), *linker.LIBRARIES]
            subprocess.run(command, check=True)
            return build_cache.Entry(path.read_bytes(), "")

        key = (text, str(optimised), *NATIVE, str(cpu_target()), linker.identity())
        path.write_bytes(once("emulated", *key, make=compiled).binary)
        return ctypes.CDLL(str(path))
