"""Loading TVM's runtime into this process, without its compiler, and setting its threads."""

from __future__ import annotations

import ctypes
import os
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from tuner.errors import MissingRuntime

LIBRARIES = {
    "cpu": ("libtvm_runtime.so",),
    "cuda": ("libtvm_runtime.so", "libtvm_runtime_cuda.so"),
}
"""By kind of device, the shared libraries of TVM's runtime, in the order in which they are
loaded."""
KINDS = tuple(LIBRARIES)
SPINS = 2000
"""How often an idle thread of TVM looks for work before it sleeps, which takes about a millisecond.
With TVM's default, 300,000, it would occupy a processor that the program's next call needs:
docs/benchmarks/two-runtimes.md has the figures."""


def threading_environment(threads: int) -> dict[str, str]:
    """Return the variables that TVM reads before a process's first parallel kernel.

    They set the number of threads: without them TVM takes half of the processors. They keep TVM
    from binding its threads, and the calling thread, to processors for good. They let threads sleep
    soon after their work.
    """
    return {
        "TVM_NUM_THREADS": str(threads),
        "TVM_BIND_THREADS": "0",
        "TVM_THREAD_POOL_SPIN_COUNT": str(SPINS),
    }


def take_threads(threads: int) -> None:
    """Make this process's parallel kernels run on that number of threads.

    Variables that its environment already has keep their values.
    """
    for name, value in threading_environment(threads).items():
        os.environ.setdefault(name, value)
    _take_one_after_a_fork()


@cache
def _take_one_after_a_fork() -> None:
    """Set the number of threads to 1 in forked children.

    TVM's threads stay with the parent, and a child's parallel kernel would wait for them for ever.
    """
    os.register_at_fork(after_in_child=partial(os.environ.update, TVM_NUM_THREADS="1"))


@cache
def load_runtime(kind: str) -> None:
    """Load the runtime that makes libraries for ``cpu`` or ``cuda`` callable.

    TVM is located but not imported: an import would take seconds and load the compiler. Raises
    MissingRuntime.
    """
    try:
        import tvm_ffi  # noqa: F401  # the runtime is linked to its library
    except ImportError as error:
        raise MissingRuntime("apache-tvm-ffi is not installed", "install it with pip") from error
    folder = libraries_folder()
    if kind == "cuda":
        _load_packaged_cudart()
    for name in LIBRARIES[kind]:
        try:
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)  # as TVM itself does
        except OSError as error:
            way_out = "a CUDA library needs an NVIDIA driver; for this machine ask for target=cpu"
            if kind == "cpu" or not (folder / name).exists():
                way_out = "install apache-tvm again"
            raise MissingRuntime(f"{name} can't be loaded ({error})", way_out) from error


def libraries_folder() -> Path:
    """Return the folder of TVM's shared libraries. Raises MissingRuntime if TVM is not
    installed."""
    spec = find_spec("tvm")
    if spec is None or not spec.submodule_search_locations:
        raise MissingRuntime("apache-tvm is not installed", "install it with pip")
    return Path(spec.submodule_search_locations[0]) / "lib"


def _load_packaged_cudart() -> None:
    """Load CUDA's runtime from the packages of the extra ``cuda``, where the loader does not look.

    If these packages are not installed, the loader finds the runtime of a CUDA toolkit.
    """
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        for path in Path(root).glob("cu*/lib/libcudart.so.*"):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            return
