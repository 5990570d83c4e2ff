"""What the CUDA source of a program declares, and what its machine code takes."""

import re
import struct
from dataclasses import dataclass
from typing import Any

from templates.ceil_div import ceil_div
from templates.limits import DeviceLimits
from templates.template import Template
from templates.workload import Workload
from tests.templates.once import once
from tuner.build import build_cache, cuda_compile
from tuner.build.alignment import element_aligned
from tuner.build.compile import cache_key
from tuner.device import cuda_facts


def source(
    template: Template[Any], workload: Workload, config: dict[str, Any], limits: DeviceLimits
) -> str:
    """The source TVM writes, on a machine with or without a GPU."""
    import tvm

    module = element_aligned(template.schedule(workload, config).mod)
    # a host's program as C costs less than as machine code, and the device's is the same
    target = cuda_facts.target(limits) | {"host": {"kind": "c"}}

    def compiled() -> build_cache.Entry:
        if cuda_facts.missing() is None:  # then TVM compiles it as well
            cuda_compile.install(limits.arch)
        executable = tvm.compile(module, target=tvm.target.Target(target))
        return build_cache.Entry(b"", str(executable.mod.imports[0].inspect_source()))

    return once("source", cache_key(module, target), make=compiled).source


def cubin(text: str, arch: str) -> bytes:
    """What NVRTC makes of a source."""
    return _compiled(text, arch).binary


def is_serialised(text: str, arch: str) -> bool:
    """Whether ptxas lets each matrix instruction of a warpgroup end before the next one, and says
    so in its advice."""
    return re.search(r"\(C751[0-4]\)", _compiled(text, arch).source) is not None


def _compiled(text: str, arch: str) -> build_cache.Entry:
    """Machine code, and the compiler's log."""
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
    """Registers and stack of the machine code, as :func:`registers_and_stack` has them."""
    return registers_and_stack(cubin(source(template, workload, config, limits), limits.arch))


@dataclass(frozen=True)
class Declared:
    """Bytes of shared memory, None where the launch sets them, and threads of a block of each
    kernel."""

    shared_bytes: int | None
    threads: set[int]


def declared(text: str) -> Declared:
    """What a source declares. Of several kernels each launch sets its shared memory."""
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
    """Registers a thread, and bytes of its stack (spilled registers and indexed local arrays), the
    most that a function of a cubin has: two attributes of its ELF section ``.nv.info``."""
    found = {0x2F: 0, 0x11: 0}
    at = 0
    info = _section(cubin, b".nv.info")
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:  # the others keep their value in `size`
            if attribute in (0x2F, 0x11):  # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE: (symbol, value)
                found[attribute] = max(found[attribute], struct.unpack_from("<II", info, at)[1])
            at += size
    return found[0x2F], found[0x11]


def _section(elf: bytes, name: bytes) -> bytes:
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * entry) for i in range(count)]
    strings = headers[names][4]
    for header in headers:
        start = strings + header[0]
        if elf[start : elf.index(b"\0", start)] == name:
            return elf[header[4] : header[4] + header[5]]
    raise AssertionError(f"no section {name!r}")
