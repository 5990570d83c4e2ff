"""Cheap imports, for the process from which children are forked."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

GC_THRESHOLD = 20_000
"""After how many new objects a child's garbage collector runs."""
PYTORCH = "torch"
SCIPY = "scipy.signal"
PRINTED_NAME = "TScriptPrinterName"
BLOCKED_MODULES = (PYTORCH, "cuda.bindings.driver")
"""Modules that TVM's FFI would import, but must not. FFI asks PyTorch for GPUs, and no process can
use CUDA if CUDA was open before the fork. From the second module FFI wants a class of streams, but
nothing here passes such streams to FFI, and the import takes 60 ms."""


def preload(modules: Sequence[str]) -> None:
    """Import the modules, PyTorch last, because by itself it opens no GPU. A module that can't be
    imported is skipped: the child that needs it will report the error."""
    gc.disable()  # imported objects stay; collecting garbage among them takes an eighth of the time
    if SCIPY in modules:  # SciPy fails if it finds None where PyTorch's module should be
        with suppress(Exception):
            importlib.import_module(SCIPY)
    for name in BLOCKED_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    if any(name.partition(".")[0] == "tvm" for name in modules):
        with suppress(Exception), fast_tvm_import():
            import tvm  # noqa: F401
    _import(name for name in modules if not is_pytorch(name))
    for name in BLOCKED_MODULES:
        del sys.modules[name]
    _import(name for name in modules if is_pytorch(name))
    gc.freeze()  # children share the pages of what was imported
    gc.set_threshold(GC_THRESHOLD)
    gc.enable()


def is_pytorch(module: str) -> bool:
    return module.partition(".")[0] == PYTORCH


@contextmanager
def fast_tvm_import() -> Iterator[None]:
    """Make the import of TVM faster, for as long as the block runs.

    TVM's modules ask FFI for types and operators that do not exist, and set printed names that are
    set already. They expect the errors. But for the first error FFI makes a backtrace, for which it
    reads the symbols of all libraries: 0.2 s of an import's 0.5 to 0.8 s. So the block answers such
    requests without FFI. Besides, 50 modules ask for a list of all functions, which takes 0.1 s. So
    the block makes the list only when there are more functions than before."""
    from tvm_ffi import core, registry

    given = (
        core._object_type_key_to_index,
        registry.get_global_func,
        registry.list_global_func_names,
    )
    type_index, get, _ = given
    types: set[str] = set()
    operators: set[str] = set()
    names: list[str] = []

    def index(type_key: str) -> int | None:
        if type_key not in types:
            types.update(registry.get_registered_type_keys())  # each library registers its own
        return type_index(type_key) if type_key in types else None

    def operator(name: str) -> Any:
        if name not in operators and len(found := get("ir.ListOpNames")()) > len(operators):
            operators.update(map(str, found))
        if name not in operators:
            raise AttributeError(f"there is no operator {name}")
        return get("ir.GetOp")(name)

    def attribute(name: str, key: str, value: Any, level: int) -> None:
        known = key == PRINTED_NAME and name in operators
        if not known or get("ir.OpGetAttr")(get("ir.GetOp")(name), key) != value:
            get("ir.RegisterOpAttr")(name, key, value, level)

    def listed() -> list[str]:
        at = get("ffi.FunctionListGlobalNamesFunctor")()
        if at(-1) != len(names):
            names[:] = [at(place) for place in range(at(-1))]
        return names

    asked: dict[str, Any] = {"GetOp": operator, "RegisterOpAttr": attribute}
    instead = {f"ir.{name}": function for name, function in asked.items()}
    core._object_type_key_to_index = index
    registry.get_global_func = lambda name, *rest: instead.get(name) or get(name, *rest)
    registry.list_global_func_names = listed
    try:
        yield
    finally:
        core._object_type_key_to_index, registry.get_global_func = type_index, get
        registry.list_global_func_names = given[2]
        module = sys.modules.get("tvm.ir._ffi_api")
        for name, function in asked.items():
            if getattr(module, name, None) is function:
                setattr(module, name, get(f"ir.{name}"))


def _import(modules: Iterable[str]) -> None:
    """Import the modules, except those that can't be imported."""
    for name in modules:
        with suppress(Exception):
            importlib.import_module(name)
