"""TVM's FFI is asked only for types that it has, as long as TVM is imported."""

import pytest
from tvm_ffi import core

from tuner.process.imports import types_looked_up


def test_a_type_that_it_lacks_costs_no_backtrace(monkeypatch: pytest.MonkeyPatch) -> None:
    index, asked = core._object_type_key_to_index, []

    def recorded(key: str) -> int | None:
        asked.append(key)
        return index(key)

    monkeypatch.setattr(core, "_object_type_key_to_index", recorded)
    with types_looked_up():
        found = {key: core._object_type_key_to_index(key) for key in ("ffi.Module", "no.Such")}
    assert found == {"ffi.Module": index("ffi.Module"), "no.Such": None}
    assert found["ffi.Module"] is not None
    assert asked == ["ffi.Module"]
    assert core._object_type_key_to_index is recorded
