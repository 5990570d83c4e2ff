"""TVM's runtime in this process, from the package's own copy of it, and the threads of kernels."""

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
"""By a kind of device, the libraries and a function that each registers."""


def load_runtime(kind: str) -> None:
    """Make libraries for ``cpu`` or ``cuda`` callable. Raises OSError if that can't be.

    A second copy ends the process, because it registers the same functions. So what is loaded
    already is taken; or else what an installed TVM would load, as that may be imported later."""
    for name, function in _LIBRARIES[kind].items():
        if tvm_ffi.get_global_func(function, allow_missing=True) is None:
            ctypes.CDLL(str(_folder() / name), mode=ctypes.RTLD_GLOBAL)


def take_threads(threads: int) -> None:
    """Have this process's parallel kernels run on so many threads, none bound to a processor, and
    asleep soon after their work. What its environment says already stays."""
    os.environ.setdefault("TVM_NUM_THREADS", str(threads))
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "2000")


def use_pytorchs(module: Any, threads: int) -> None:
    """Have a loaded library's loops run on as many of PyTorch's threads as torch.set_num_threads
    allows, but on no more than so many. It stays with TVM's if it was built by an earlier release,
    or PyTorch without OpenMP."""
    if module.implements_function("use_openmp") and (addresses := _addresses_of_openmp()):
        module["use_openmp"](*addresses, threads)


@cache
def _addresses_of_openmp() -> tuple[int, ...]:
    names = (
        "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "_ZN2at15get_num_threadsEv",
    )  # fmt: skip
    try:  # what PyTorch needs is searched too, and nothing else: others may have their own copy
        pytorch = ctypes.CDLL(torch._C.__file__, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        found = [getattr(pytorch, name) for name in names]
    except (OSError, AttributeError):
        return ()
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found)


def _folder() -> Path:
    tvm = find_spec("tvm")
    for root in (tvm and tvm.submodule_search_locations) or ():
        if (Path(root) / "lib" / "libtvm_runtime.so").exists():
            return Path(root) / "lib"
    return OWN
