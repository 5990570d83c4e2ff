"""What children need, imported at the least cost by the process that they are forked from."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

FEW_LOOKS = 20_000
"""Objects between two looks for garbage in a child."""
PYTORCH = "torch"
SCIPY = "scipy.signal"
PRINTED_NAME = "TScriptPrinterName"
AVOIDED = (PYTORCH, "cuda.bindings.driver")
"""What TVM's FFI imports if it can: PyTorch, which it asks for GPUs, and no process can use CUDA if
that was open before its fork; and a class of streams that nothing here gives it, for 60 ms."""


def bring(modules: Sequence[str]) -> None:
    """Import the modules, PyTorch last: by itself it opens no GPU. One that can't be imported is
    left to the child that needs it, which will say so."""
    gc.disable()  # what is imported stays: looking for garbage in it takes an eighth of the time
    if SCIPY in modules:  # while PyTorch stands as None, SciPy would ask that for its tensors
        with suppress(Exception):
            importlib.import_module(SCIPY)
    for name in AVOIDED:
        sys.modules[name] = None  # type: ignore[assignment]
    if any(name.partition(".")[0] == "tvm" for name in modules):
        with suppress(Exception), asking_in_vain_for_nothing():
            import tvm  # noqa: F401
    _import(name for name in modules if not of_pytorch(name))
    for name in AVOIDED:
        del sys.modules[name]
    _import(name for name in modules if of_pytorch(name))
    gc.freeze()  # children share the pages of what was imported
    gc.set_threshold(FEW_LOOKS)
    gc.enable()


def of_pytorch(module: str) -> bool:
    return module.partition(".")[0] == PYTORCH


@contextmanager
def asking_in_vain_for_nothing() -> Iterator[None]:
    """Ask TVM's FFI only for types and operators that it has, and give no operator a printed name
    that it has already. TVM's modules expect some of that to fail, and of the first error FFI makes
    a backtrace that nobody reads, for which it reads the symbols of all libraries: 0.2 s of the 0.5
    to 0.8 s of an import. List FFI's functions only if there are more than before: 50 modules ask
    for all of them, for another 0.1 s."""
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
            types.update(registry.get_registered_type_keys())  # a library brings its own
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
    for name in modules:
        with suppress(Exception):
            importlib.import_module(name)
