"""``fast_tvm_import`` avoids look-ups in FFI that fail and cost a backtrace. It does not change the
imported modules."""

import subprocess
import sys

import pytest
import tvm.ir
from tvm_ffi import core, registry

from tuner.process.imports import PRINTED_NAME, fast_tvm_import

SEEN = """
import sys, tvm
for name, module in sorted(sys.modules.items()):
    if name.startswith("tvm") and name.endswith("_ffi_api"):
        print(name, *sorted(vars(module)))
for name in sorted(map(str, tvm.ir.Op.list_op_names())):
    print(name, tvm.ir.Op.get(name).get_attr("TScriptPrinterName"))
print(type(tvm.ir._ffi_api.GetOp), type(tvm.ir._ffi_api.RegisterOpAttr))
"""


def test_missing_type_costs_no_backtrace(monkeypatch: pytest.MonkeyPatch) -> None:
    index, asked = core._object_type_key_to_index, []

    def recorded(key: str) -> int | None:
        asked.append(key)
        return index(key)

    monkeypatch.setattr(core, "_object_type_key_to_index", recorded)
    with fast_tvm_import():
        found = {key: core._object_type_key_to_index(key) for key in ("ffi.Module", "no.Such")}
    assert found == {"ffi.Module": index("ffi.Module"), "no.Such": None}
    assert found["ffi.Module"] is not None
    assert asked == ["ffi.Module"]
    assert core._object_type_key_to_index is recorded


def test_missing_operator_or_repeated_printed_name_costs_no_backtrace() -> None:
    """Neither a missing operator nor a printed name that is set already costs a backtrace."""
    names = registry.list_global_func_names()
    given = ("tirx.s_tir.ldg32", PRINTED_NAME, "s_tir.ldg32", 20)
    with fast_tvm_import():
        operator, give = (
            registry.get_global_func(f"ir.{name}") for name in ("GetOp", "RegisterOpAttr")
        )
        with pytest.raises(AttributeError, match=r"no operator tirx\.no_such"):
            operator("tirx.no_such")
        assert operator(given[0]).same_as(tvm.ir.Op.get(given[0]))
        give(*given)
        assert registry.list_global_func_names() == names
    with pytest.raises(tvm.error.InternalError, match="already registered"):
        registry.get_global_func("ir.RegisterOpAttr")(*given)


def test_preload_imports_the_same_tvm_as_a_plain_import() -> None:
    first = "from tuner.process.imports import preload; preload(['tvm.s_tir'])"
    brought, imported = (
        subprocess.run(
            [sys.executable, "-c", f"{how}\n{SEEN}"], capture_output=True, text=True, check=True
        ).stdout
        for how in (first, "import tvm.s_tir")
    )
    assert brought == imported
    assert "tvm_ffi.core.Function" in brought


def test_preload_imports_scipy_without_pytorch() -> None:
    """While ``preload`` imports TVM, it blocks PyTorch by None in place of its module. SciPy fails
    if it finds this None, so SciPy must be imported before."""
    seen = "import sys; print('scipy.signal' in sys.modules, 'torch' in sys.modules)"
    brought = "from tuner.process.imports import preload; preload(['scipy.signal'])"
    said = subprocess.run(
        [sys.executable, "-c", f"{brought}\n{seen}"], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["True", "False"]
