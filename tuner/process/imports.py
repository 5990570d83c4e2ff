"""What children need, imported at the least cost by the process that they are forked from."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

FEW_LOOKS = 20_000
"""Objects between two looks for garbage in a child."""
PYTORCH = "torch"
AVOIDED = (PYTORCH, "cuda.bindings.driver")
"""What TVM's FFI imports if it can: PyTorch, which it asks for GPUs, and no process can use CUDA if
that was open before its fork; and a class of streams that nothing here gives it, for 60 ms."""


def bring(modules: Sequence[str]) -> None:
    """Import the modules, PyTorch last: by itself it opens no GPU. One that can't be imported is
    left to the child that needs it, which will say so."""
    gc.disable()  # what is imported stays: looking for garbage in it takes an eighth of the time
    for name in AVOIDED:
        sys.modules[name] = None  # type: ignore[assignment]
    if any(name.partition(".")[0] == "tvm" for name in modules):
        with suppress(Exception), types_looked_up():
            import tvm  # noqa: F401
    _import(name for name in modules if name != PYTORCH)
    for name in AVOIDED:
        del sys.modules[name]
    _import(name for name in modules if name == PYTORCH)
    gc.freeze()  # children share the pages of what was imported
    gc.set_threshold(FEW_LOOKS)
    gc.enable()


@contextmanager
def types_looked_up() -> Iterator[None]:
    """Ask TVM's FFI only for types that it has. TVM's modules ask for some that it has not, and of
    the first it makes a backtrace that nobody reads, for which it reads the symbols of all
    libraries: 0.2 s of the 0.4 to 0.7 s of an import."""
    from tvm_ffi import core
    from tvm_ffi.registry import get_registered_type_keys

    asked = core._object_type_key_to_index
    known: set[str] = set()

    def index(type_key: str) -> int | None:
        if type_key not in known:
            known.update(get_registered_type_keys())  # a library brings its own
        return asked(type_key) if type_key in known else None

    core._object_type_key_to_index = index
    try:
        yield
    finally:
        core._object_type_key_to_index = asked


def _import(modules: Iterable[str]) -> None:
    for name in modules:
        with suppress(Exception):
            importlib.import_module(name)
