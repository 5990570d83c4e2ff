"""Loading of TVM's runtime (the package has a copy), and the threads of the package's kernels."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import tvm_ffi

OWN = Path(__file__).parent / "tvm_runtime"
_LIBRARIES = {
    "cpu": {"libtvm_runtime.so": "device_api.cpu"},
    "cuda": {"libtvm_runtime.so": "device_api.cpu", "libtvm_runtime_cuda.so": "device_api.cuda"},
}
"""For each kind of device, the libraries that run its kernels, each with a function that it
registers. A library whose function is registered is loaded already."""


def load_runtime(kind: str) -> None:
    """Load the libraries that run kernels for ``cpu`` or ``cuda``. Raise OSError if that fails.

    A second copy of TVM's runtime would end the process, because it registers the same functions.
    So a runtime that is loaded stays. If none is loaded, the runtime of an installed TVM is
    preferred to the package's own, because that TVM may be imported later."""
    for name, function in _LIBRARIES[kind].items():
        if tvm_ffi.get_global_func(function, allow_missing=True) is None:
            ctypes.CDLL(str(_folder() / name), mode=ctypes.RTLD_GLOBAL)


def take_threads(threads: int) -> None:
    """Let this process's parallel kernels run on that many threads of TVM's. The threads are not
    bound to processors and sleep soon after their work. Variables that are set already stay."""
    os.environ.setdefault("TVM_NUM_THREADS", str(threads))
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "2000")


def use_pytorchs(module: Any, threads: int) -> None:
    """Let a loaded library's parallel loops run on PyTorch's OpenMP threads: as many as
    ``torch.set_num_threads`` allows, but at most ``threads``. The library stays on TVM's threads
    if it was built by a release without OpenMP, or if PyTorch was built without OpenMP."""
    if module.implements_function("use_openmp") and (addresses := _addresses_of_openmp()):
        module["use_openmp"](*addresses, threads)


@cache
def _addresses_of_openmp() -> tuple[int, ...]:
    """Return the addresses of the functions that ``use_openmp`` takes; () if one is missing."""
    names = (
        "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "_ZN2at15get_num_threadsEv",
    )  # fmt: skip
    try:  # searches only PyTorch and its linked libraries: others may have an OpenMP of their own
        pytorch = ctypes.CDLL(torch._C.__file__, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        found = [getattr(pytorch, name) for name in names]
    except (OSError, AttributeError):
        return ()
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found)


def _folder() -> Path:
    """Return the folder of an installed TVM's libraries, or else of the package's own copy."""
    tvm = find_spec("tvm")
    for root in (tvm and tvm.submodule_search_locations) or ():
        if (Path(root) / "lib" / "libtvm_runtime.so").exists():
            return Path(root) / "lib"
    return OWN
