"""Builds for an older device than the one at hand: a library has PTX for the older architecture,
which the driver compiles when the library is loaded. ``build`` runs in a builder's child."""

from unittest.mock import patch

from tuner.build import compile as compiling
from tuner.build import cuda_compile
from tuner.build.compile import BuildOrder, Built
from tuner.device.cuda import checked


def build(order: BuildOrder) -> Built:
    """Build an order as the builder does, but with PTX instead of machine code."""
    with patch.object(cuda_compile, "cubin", ptx):
        return compiling.build(order)


def ptx(source: str, arch: str) -> bytes:
    """Return NVRTC's PTX for an arch such as ``sm_75``, with a zero at its end.

    A driver older than NVRTC may refuse the PTX. Raise RuntimeError with the compiler's log if the
    source does not compile.
    """
    from cuda.bindings import nvrtc

    names = [name.encode() for name in cuda_compile.HEADERS]
    contents = [text.encode() for text in cuda_compile.HEADERS.values()]
    program = checked(
        nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", len(names), contents, names)
    )
    try:
        virtual = f"--gpu-architecture={arch.replace('sm_', 'compute_')}"
        options = [option.encode() for option in (virtual, *cuda_compile.OPTIONS)]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(result) != 0:
            log = bytearray(checked(nvrtc.nvrtcGetProgramLogSize(program)))
            checked(nvrtc.nvrtcGetProgramLog(program, log))
            raise RuntimeError(f"NVRTC: {log.decode(errors='replace')}")
        text = bytearray(checked(nvrtc.nvrtcGetPTXSize(program)))
        checked(nvrtc.nvrtcGetPTX(program, text))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(text)
