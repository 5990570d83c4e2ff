"""A library's parallel loops on the threads that PyTorch has in the process already.

TVM's own threads beside them would spin on processors that PyTorch's next operator wants, and the
other way round. tuner/build/openmp.c is what the libraries have for it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

FUNCTION = "use_openmp"
"""Of a library for a CPU, unless it is of an earlier release."""
_NAMES = (
    "GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "_ZN2at15get_num_threadsEv",
)  # fmt: skip
"""What PyTorch is linked with, and its at::get_num_threads."""


def use_pytorchs(module: Any, threads: int) -> None:
    """If PyTorch is in this process, have a loaded library's loops run on as many of its threads as
    torch.set_num_threads allows, but on no more than so many. It stays with TVM's if PyTorch was
    built without OpenMP."""
    if "torch" not in sys.modules or not module.implements_function(FUNCTION):
        return
    if addresses := _addresses():
        module[FUNCTION](*addresses, threads)


@cache
def _addresses() -> tuple[int, ...]:
    try:  # what it needs is searched too, and nothing else: others may have their own copy
        pytorch = sys.modules["torch"]._C.__file__
        loaded = ctypes.CDLL(pytorch, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        found = [getattr(loaded, name) for name in _NAMES]
    except (OSError, AttributeError):
        return ()
    return tuple(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found)
