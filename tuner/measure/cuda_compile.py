"""CUDA source to cubin by NVRTC, with or without a toolkit on the host."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def install(arch: str) -> None:
    """Make TVM compile its CUDA source with :func:`cubin` for that arch."""
    import tvm_ffi

    tvm_ffi.register_global_func(
        "tvm_callback_cuda_compile", lambda source: cubin(source, arch), override=True
    )


def cubin(source: str, arch: str) -> bytes:
    """The machine code of CUDA source for an arch such as ``sm_90``. Raises RuntimeError with
    the compiler's log."""
    from tvm.support import nvcc

    os.environ.setdefault("CUDA_PATH", str(toolkit()))
    binary = nvcc.compile_cuda(
        source, target_format="cubin", arch=arch, options=_headers(), compiler="nvrtc"
    )
    return bytes(binary)


def toolkit() -> Path:
    """Where CUDA's headers are: CUDA_PATH, a toolkit of the host, or the packages of the extra
    ``cuda``. Raises RuntimeError where none is."""
    places = [os.environ.get("CUDA_PATH"), "/usr/local/cuda", *_packaged()]
    for place in places:
        if place and any(Path(place).glob("**/include/cuda_runtime.h")):
            return Path(place)
    raise RuntimeError("CUDA's headers are missing: pip install 'convtune[cuda]'")


def _packaged() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations if spec else None
    return [str(path) for root in roots or [] for path in sorted(Path(root).glob("cu1*"))]


def _headers() -> list[str]:
    """CCCL's headers lie beside CUDA's in the packages, which TVM does not look for."""
    path = toolkit() / "include" / "cccl"
    return [f"-I{path}"] if path.is_dir() else []
