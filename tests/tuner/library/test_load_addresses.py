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
def test_it_computes_what_a_call_does(libraries: dict[str, Path], name: str) -> None:
    """A call by addresses gives exactly the output of an ordinary call."""
    library = load(libraries[name])
    given = arrays(library.workload)
    expected = library(*given)
    output = np.full_like(expected, np.nan)
    by_address = library.by_address(None)
    assert by_address is not None
    by_address(*(each.ctypes.data for each in (*given, output)))
    assert np.array_equal(output, expected)


def test_two_libraries_keep_apart(libraries: dict[str, Path]) -> None:
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


def test_a_library_of_an_earlier_release_has_none() -> None:
    assert addresses.on_cpu(Module(main=print), ()) is None


def test_more_axes_than_are_kept_are_no_error(libraries: dict[str, Path]) -> None:
    library = load(libraries["depthwise-serial"])
    deep = Argument("input", (1,) * 7, "float32", "input")
    assert addresses.on_cpu(library._module, [deep]) is None
    assert addresses.on_cpu(library._module, [library.arguments[0]] * 9) is None
    assert addresses.on_cpu(library._module, library.arguments) is not None


def test_a_workspace_is_not_left_out(libraries: dict[str, Path]) -> None:
    library = load(libraries["depthwise-serial"])
    library._workspace = 16
    assert library.by_address(None) is None
