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


def use_pytorchs(module: Any, threads: int) -> None:
    """If PyTorch is imported, run a loaded library's loops on its threads.

    The loops use as many threads as torch.set_num_threads allows, but at most ``threads``. Nothing
    changes if PyTorch was built without OpenMP, or if the library is of an earlier release: the
    loops run on TVM's threads.
    """
    if "torch" not in sys.modules or not module.implements_function(FUNCTION):
        return
    if addresses := _addresses():
        module[FUNCTION](*addresses, threads)


@cache
def _addresses() -> tuple[int, ...]:
    """Return the addresses of _NAMES; () if PyTorch lacks one of them."""
    # search only PyTorch's library and those that it is linked to: others may have their own OpenMP
    try:
        pytorch = sys.modules["torch"]._C.__file__
        loaded = ctypes.CDLL(pytorch, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        found = [getattr(loaded, name) for name in _NAMES]
    except (OSError, AttributeError):
        return ()
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found)
