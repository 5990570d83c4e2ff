"""A stub of libcuda.so.1, for a host that compiles for a GPU but has no driver.

TVM's CUDA runtime, which packs machine code into a library, is linked to the driver's library and
can't be loaded without one. While a library is built, none of the driver's functions is called.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

from tuner.build.linker import linker

NAME = "libcuda.so.1"
FUNCTIONS = (
    "cuDeviceGetName",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuLaunchKernelEx",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuTensorMapEncodeTiled",
)
"""The driver's functions that TVM's CUDA runtime is linked to."""
CUDA_ERROR_STUB_LIBRARY = 34


def load_driver_or_stub() -> None:
    """Load the driver's library or, if the host has none, a stub whose functions all return an
    error.

    Raises NoLinker if the stub can't be linked because the host has no compiler.
    """
    try:
        ctypes.CDLL(NAME, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="convtune-stub-") as folder:
            ctypes.CDLL(str(_linked(Path(folder))), mode=ctypes.RTLD_GLOBAL)


def _linked(folder: Path) -> Path:
    source, library = folder / "stub.c", folder / NAME
    bodies = (f"int {name}(void) {{ return {CUDA_ERROR_STUB_LIBRARY}; }}" for name in FUNCTIONS)
    source.write_text("\n".join(bodies) + "\n")
    command = [linker(), "-x", "c", "-shared", "-fPIC", f"-Wl,-soname,{NAME}"]
    subprocess.run(
        [*command, "-o", str(library), str(source)], check=True, capture_output=True, text=True
    )
    return library
