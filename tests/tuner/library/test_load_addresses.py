"""Calls of a library by the memory addresses of its tensors, without any checks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_libraries import arrays

from templates.argument import Argument
from tuner.library import addresses
from tuner.library.load import load


@pytest.mark.parametrize("name", ["full-parallel", "depthwise-serial", "bfloat16-serial"])
def test_call_by_addresses_equals_an_ordinary_call(libraries: dict[str, Path], name: str) -> None:
    """A call by addresses gives exactly the output of an ordinary call."""
    library = load(libraries[name])
    given = arrays(library.workload)
    expected = library(*given)
    output = np.full_like(expected, np.nan)
    by_address = library.by_address(None)
    assert by_address is not None
    by_address(*(each.ctypes.data for each in (*given, output)))
    assert np.array_equal(output, expected)


def test_calls_by_addresses_of_two_libraries_do_not_interfere(libraries: dict[str, Path]) -> None:
    full, depthwise = (load(libraries[name]) for name in ("full-serial", "depthwise-serial"))
    by_address = full.by_address(None)
    assert by_address is not None
    assert depthwise.by_address(None) is not None
    x, w = arrays(full.workload)
    y = np.empty(full.arguments[2].shape, "f4")
    by_address(x.ctypes.data, w.ctypes.data, y.ctypes.data)
    assert np.array_equal(y, full(x, w))


class Module:
    """A stand-in for TVM's module of a library that has only the given functions."""

    def __init__(self, **functions: Any) -> None:
        self._functions = functions

    def implements_function(self, name: str) -> bool:
        return name in self._functions

    def __getitem__(self, name: str) -> Any:
        return self._functions[name]


def test_library_of_an_earlier_release_has_no_call_by_addresses() -> None:
    assert addresses.on_cpu(Module(main=print), ()) is None


def test_too_many_axes_or_arguments_give_no_call_by_addresses(libraries: dict[str, Path]) -> None:
    library = load(libraries["depthwise-serial"])
    deep = Argument("input", (1,) * 7, "float32", "input")
    assert addresses.on_cpu(library._module, [deep]) is None
    assert addresses.on_cpu(library._module, [library.arguments[0]] * 9) is None
    assert addresses.on_cpu(library._module, library.arguments) is not None


def test_library_with_a_workspace_has_no_call_by_addresses(libraries: dict[str, Path]) -> None:
    library = load(libraries["depthwise-serial"])
    library._workspace = 16
    assert library.by_address(None) is None
