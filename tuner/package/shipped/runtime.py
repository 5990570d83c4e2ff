"""TVM's runtime in this process, from the package's own copy of it."""

from __future__ import annotations

import ctypes
import os
from importlib.util import find_spec
from pathlib import Path

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


def _folder() -> Path:
    tvm = find_spec("tvm")
    for root in (tvm and tvm.submodule_search_locations) or ():
        if (Path(root) / "lib" / "libtvm_runtime.so").exists():
            return Path(root) / "lib"
    return OWN
