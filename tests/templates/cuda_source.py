"""The CUDA source and machine code of a configuration, made without a GPU, and the shared memory,
threads, registers and stack that they need."""

import re
import struct
from dataclasses import dataclass
from typing import Any

from templates.ceil_div import ceil_div
from templates.kernels.launches.early_launch import begin_early
from templates.limits import DeviceLimits
from templates.template import Template
from templates.workload import Workload
from tests.templates.once import once
from tuner.build import build_cache, cuda_compile
from tuner.build.alignment import element_aligned
from tuner.build.compile import cache_key
from tuner.build.machine_code import (
    USES_OF_MEMORY,
    WAIT,
    kernels,
    opcodes,
    sections,
    uses_memory_before_wait,
)
from tuner.device import cuda_facts


def source(
    template: Template[Any], workload: Workload, config: dict[str, Any], limits: DeviceLimits
) -> str:
    """Return the CUDA source that TVM writes for a configuration, with or without a GPU."""
    import tvm

    module = element_aligned(template.schedule(workload, config).mod)
    begin_early(module, limits.arch)
    # TVM writes the host's part faster as C than as machine code, but can't write tensor maps as C.
    # The device's part is the same in both cases.
    host = "llvm" if "tensormap" in module.script() else "c"
    target = cuda_facts.target(limits) | {"host": {"kind": host}}

    def compiled() -> build_cache.Entry:
        if cuda_facts.missing() is None:  # with a GPU, TVM compiles the source too
            cuda_compile.install(limits.arch)
        executable = tvm.compile(module, target=tvm.target.Target(target))
        return build_cache.Entry(b"", str(executable.mod.imports[0].inspect_source()))

    return once("source", cache_key(module, target), make=compiled).source


def cubin(text: str, arch: str) -> bytes:
    """Return the machine code that NVRTC compiles a source to."""
    return _compiled(text, arch).binary


def is_serialised(text: str, arch: str) -> bool:
    """Return whether ptxas reports in its log that it serialises the matrix instructions of a
    warpgroup: each one then has to end before the next one starts."""
    return re.search(r"\(C751[0-4]\)", _compiled(text, arch).source) is not None


def _compiled(text: str, arch: str) -> build_cache.Entry:
    """Return the machine code as ``binary`` and the compiler's log as ``source``."""
    return once(
        "compiled",
        text,
        arch,
        cuda_compile.identity(),
        make=lambda: build_cache.Entry(*cuda_compile.compiled(text, arch)),
    )


def taken(
    template: Template[Any], workload: Workload, config: dict[str, Any], limits: DeviceLimits
) -> tuple[int, int]:
    """Return :func:`registers_and_stack` of a configuration's machine code."""
    return registers_and_stack(cubin(source(template, workload, config, limits), limits.arch))


@dataclass(frozen=True)
class Declared:
    """What a source declares: the bytes of shared memory of a block, None if the launch sets them,
    and the numbers of threads of its kernels' blocks."""

    shared_bytes: int | None
    threads: set[int]


def declared(text: str) -> Declared:
    """Return what a source declares.

    Static shared memory is added up over the whole source, so a source with several kernels must
    leave it to their launches.
    """
    threads = {int(each) for each in re.findall(r"__launch_bounds__\((\d+)\)", text)} or {1}
    if "extern __shared__" in text:
        return Declared(None, threads)
    arrays = re.findall(r"__shared__ alignas\((\d+)\) float \w+\[(\d+)\]", text)
    assert len(arrays) == text.count("__shared__")
    size = 0
    for alignment, floats in arrays:
        size = ceil_div(size, int(alignment)) * int(alignment) + 4 * int(floats)
    return Declared(size, threads)


def registers_and_stack(cubin: bytes) -> tuple[int, int]:
    """Return the registers and the bytes of stack of a thread, each the maximum over a cubin's
    functions.

    The stack holds spilled registers, and local arrays with a variable index. Both numbers are
    attributes in the ELF section ``.nv.info``.
    """
    found = {0x2F: 0, 0x11: 0}
    at = 0
    info = sections(cubin, b".nv.info")[b".nv.info"]
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:  # attributes of other forms have their value in `size`
            if attribute in (0x2F, 0x11):  # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE: (symbol, value)
                found[attribute] = max(found[attribute], struct.unpack_from("<II", info, at)[1])
            at += size
    return found[0x2F], found[0x11]


BEGIN_NEXT = 0x82D
"""The opcode of the instruction that lets the next launch begin."""


def waits_first(cubin: bytes) -> bool:
    """Return whether each kernel of a cubin waits for the previous launch on every path that leads
    to a use of global memory."""
    waits = all(WAIT in opcodes(code) for code in kernels(cubin))
    return waits and not uses_memory_before_wait(cubin)


def begins_next_after_loads(cubin: bytes) -> bool:
    """Return whether each kernel of a cubin lets the next launch begin, but only after it has
    waited for the previous launch and begun to load."""
    return all(
        BEGIN_NEXT in code
        and WAIT in code[: code.index(BEGIN_NEXT)]
        and set(code[: code.index(BEGIN_NEXT)]).intersection(USES_OF_MEMORY)
        for code in map(opcodes, kernels(cubin))
    )
