"""Loading of TVM's runtime (the package has a copy), and the threads of the package's kernels."""

from __future__ import annotations

import ctypes
import os
from functools import cache, partial
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
_tvms: dict[int, int | None] = {}
"""What kernels' pointers to the function that runs parallel loops held before the loops ran on
PyTorch's threads, by the pointers' addresses."""


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
    _take_one_after_a_fork()


@cache
def _take_one_after_a_fork() -> None:
    """Let forked children use one of TVM's threads: the others stay with this process."""
    os.register_at_fork(after_in_child=partial(os.environ.update, TVM_NUM_THREADS="1"))


def use_pytorchs(module: Any, path: Path, threads: int) -> None:
    """Let the parallel loops of the library that was loaded from ``path`` run on PyTorch's OpenMP
    threads: as many as ``torch.set_num_threads`` allows, but at most ``threads``. The library stays
    on TVM's threads if it was built by a release without OpenMP, if PyTorch was built without
    OpenMP, or if this process was forked from one that has such libraries."""
    addresses, owner = _addresses_of_openmp()
    if not addresses or owner != os.getpid() or not module.implements_function("use_openmp"):
        return
    try:
        launch = ctypes.c_void_p.in_dll(ctypes.CDLL(str(path)), "__TVMBackendParallelLaunch")
    except ValueError:  # it has no parallel loop
        return
    _tvms.setdefault(ctypes.addressof(launch), launch.value)
    module["use_openmp"](*addresses, threads)


def _return_to_tvms() -> None:
    """Let all parallel loops run on TVM's threads again."""
    for address, launch in _tvms.items():
        ctypes.c_void_p.from_address(address).value = launch


@cache
def _addresses_of_openmp() -> tuple[tuple[int, ...], int]:
    """Return the addresses of the functions that ``use_openmp`` takes, () if one is missing, and
    this process's id. A forked child would wait for OpenMP's threads, which stay here, for ever."""
    os.register_at_fork(after_in_child=_return_to_tvms)
    names = (
        "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "_ZN2at15get_num_threadsEv",
    )  # fmt: skip
    try:  # searches only PyTorch and its linked libraries: others may have an OpenMP of their own
        pytorch = ctypes.CDLL(torch._C.__file__, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        found = [getattr(pytorch, name) for name in names]
    except (OSError, AttributeError):
        return (), os.getpid()
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found), os.getpid()


def _folder() -> Path:
    """Return the folder of an installed TVM's libraries, or else of the package's own copy."""
    tvm = find_spec("tvm")
    for root in (tvm and tvm.submodule_search_locations) or ():
        if (Path(root) / "lib" / "libtvm_runtime.so").exists():
            return Path(root) / "lib"
    return OWN
