"""Running a library's parallel loops on the threads of PyTorch, if it is in the process.

TVM's own threads would spin on processors that PyTorch's next operator needs, and PyTorch's threads
on processors that TVM needs. tuner/build/openmp.c is the part that is in each library for a CPU.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

FUNCTION = "use_openmp"
"""Name of the function that makes a library for a CPU use these threads. Libraries of earlier
releases lack it."""
_NAMES = (
    "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "_ZN2at15get_num_threadsEv",
)  # fmt: skip
"""OpenMP functions that PyTorch is linked with, and its own at::get_num_threads."""
_LAUNCH = "__TVMBackendParallelLaunch"
"""Name of a library's pointer to the function that runs its parallel loops."""
_tvms: dict[int, int | None] = {}
"""What the pointers of libraries held before their loops ran on PyTorch's threads, by the pointers'
addresses."""


def use_pytorchs(module: Any, file: ctypes.CDLL, threads: int) -> None:
    """If PyTorch is imported, run a loaded library's loops on its threads.

    ``file`` is the same library. The loops use as many threads as torch.set_num_threads allows, but
    at most ``threads``. In these cases they run on TVM's threads: PyTorch was built without OpenMP;
    the library is of an earlier release; this process was forked from one with such libraries.
    """
    if "torch" not in sys.modules or not module.implements_function(FUNCTION):
        return
    addresses, owner = _addresses()
    if not addresses or owner != os.getpid():
        return
    try:
        launch = ctypes.c_void_p.in_dll(file, _LAUNCH)
    except ValueError:  # it has no parallel loop
        return
    _tvms.setdefault(ctypes.addressof(launch), launch.value)
    module[FUNCTION](*addresses, threads)


def _return_to_tvms() -> None:
    """Run the loops of all libraries on TVM's threads again."""
    for address, launch in _tvms.items():
        ctypes.c_void_p.from_address(address).value = launch


@cache
def _addresses() -> tuple[tuple[int, ...], int]:
    """Return the addresses of _NAMES, () if PyTorch lacks one of them, and this process's id.

    OpenMP's threads stay with this process. A forked child that used them would wait for ever.
    """
    os.register_at_fork(after_in_child=_return_to_tvms)
    # search only PyTorch's library and those that it is linked to: others may have their own OpenMP
    try:
        pytorch = sys.modules["torch"]._C.__file__
        loaded = ctypes.CDLL(pytorch, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        found = [getattr(loaded, name) for name in _NAMES]
    except (OSError, AttributeError):
        return (), os.getpid()
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found), os.getpid()
