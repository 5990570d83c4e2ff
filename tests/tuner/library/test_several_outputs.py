"""A library with several outputs: all gradients of a causal layer."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import templates
from tuner.errors import WrongArgument, WrongLayout, WrongShape
from tuner.library.load import Library, load
from tuner.measure.cases import draw
from tuner.measure.check import relative_error

NAMES = ["input_gradient", "weight_gradient", "bias_gradient"]


@pytest.fixture
def library(libraries: dict[str, Path]) -> Library:
    return load(libraries["causalbackward-serial"])


@pytest.fixture
def given(library: Library) -> tuple[Any, ...]:
    return draw(library.workload, "normal", np.random.default_rng(1))


def new(library: Library) -> tuple[Any, ...]:
    """Return an array of NaNs for each output."""
    return tuple(np.full(each.shape, np.nan, each.dtype) for each in library.workload.outputs)


def test_library_with_several_outputs_returns_a_tuple(
    library: Library, given: tuple[Any, ...]
) -> None:
    assert [each.name for each in library.workload.outputs] == NAMES
    parameters = inspect.signature(library).parameters
    assert list(parameters) == [*(each.name for each in library.workload.inputs), "out", "cast"]
    found = library(*given)
    assert type(found) is tuple
    exact = templates.operator("conv1d").references(library.workload, *given)
    assert list(exact) == NAMES
    for y, reference in zip(found, exact.values(), strict=True):
        assert relative_error(y, reference) <= 1e-6
    out = new(library)
    x, g, w, b = given
    read_only = x.copy()
    read_only.flags.writeable = False
    for again in (
        library(x, g, bias=b, weight=w),
        library(*given, out=out),
        library(*given, list(new(library))),
        library(read_only, g, w, b),
        library(x.astype("f8"), g, w, b, cast=True),
    ):
        for one, other in zip(again, found, strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(out, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_error_names_the_output_that_does_not_fit(library: Library, given: tuple[Any, ...]) -> None:
    dx, dw, db = new(library)
    names = r"a tuple of 3 arrays, \(input_gradient, weight_gradient, bias_gradient\)"
    for out, kind, says in (
        (dx, WrongArgument, f"out must be {names}, but is ndarray"),
        ((dx, dw), WrongArgument, f"out must be {names}, but is 2 of them"),
        ((dx, dw, db[:-1]), WrongShape, r"bias_gradient must have shape \(4,\)"),
        ((dx, dw, given[3]), WrongLayout, "bias_gradient must not share memory with bias"),
        ((dx, dw, dx.reshape(-1)[:4]), WrongLayout, "not share memory with input_gradient"),
        ((given[0], dw, db), WrongLayout, "input_gradient must not share memory with input"),
    ):
        with pytest.raises(kind, match=says):
            library(*given, out=out)


def test_manifest_names_all_outputs(library: Library) -> None:
    arguments = library.manifest["signature"]["arguments"]
    assert [each["name"] for each in arguments if each["role"] == "output"] == NAMES
    assert library.by_address(None) is not None


@pytest.mark.torch
def test_library_with_several_outputs_takes_pytorch_tensors(
    library: Library, given: tuple[Any, ...]
) -> None:
    import torch

    exact, tensors = library(*given), [torch.from_numpy(each) for each in given]
    out = tuple(torch.from_numpy(each) for each in new(library))
    for found in (library(*tensors), library(*tensors, out=out), library.of_tensors(*tensors)):
        assert type(found) is tuple
        for one, other in zip(found, exact, strict=True):
            np.testing.assert_array_equal(one.numpy(), other)
    shared = (out[0], out[1], out[0].view(-1)[:4])
    with pytest.raises(WrongLayout, match="bias_gradient must not share memory"):
        library(*tensors, out=shared)
