"""A workload's key: canonical JSON that is stable between releases and gives the workload back."""

import json
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from templates import operator, parse_key
from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import LEAST_ERROR
from templates.errors import UnknownOperator
from templates.workload import AddedLater, Workload
from tests.templates.shapes import WORKLOADS, small_conv1d, small_gradients

GRADIENTS = small_gradients("conv1d") | small_gradients("depthwise_conv2d")


def test_keys_are_stable() -> None:
    """Keys identify stored results: if one changes, its results are no longer found."""
    conv1d = operator("conv1d").workload.model_validate({"N": 32, "M": 16384})
    assert conv1d.key == (
        '{"M":16384,"N":32,"dtype":"float32","kind":"convolve","max_error":1e-05,"mode":"full",'
        '"operator":"conv1d"}'
    )
    depthwise = operator("depthwise_conv2d").workload.model_validate(
        {"K": 7, "W": 32, "H": 16, "C": 4, "B": 3, "max_error": 0.001}
    )
    assert depthwise.key == (
        '{"B":3,"C":4,"H":16,"K":7,"W":32,"dtype":"float32","max_error":0.001,'
        '"operator":"depthwise_conv2d","stride":1}'
    )
    half = operator("conv1d").workload.model_validate({"N": 3, "M": 9, "dtype": "float16"})
    assert half.key == (
        '{"M":9,"N":3,"dtype":"float16","kind":"convolve","max_error":0.001,"mode":"full",'
        '"operator":"conv1d"}'
    )


class Widened(Conv1dWorkload):
    """A conv1d workload of a later release, with two fields that older keys don't have."""

    copies: Annotated[int, AddedLater()] = 1
    parts: Annotated[int | None, AddedLater(), Field(ge=1)] = None


def test_a_later_field_at_its_default_stays_out_of_the_key() -> None:
    stored = Conv1dWorkload(M=9, N=3)
    assert Widened(M=9, N=3).key == Widened(M=9, N=3, copies=1, parts=None).key == stored.key
    fields = json.loads(Widened(M=9, N=3, copies=2, parts=1).key)
    assert fields == json.loads(stored.key) | {"copies": 2, "parts": 1}
    assert Widened(M=9, N=3, copies=2).key != stored.key


@given(WORKLOADS | GRADIENTS, st.floats(max(LEAST_ERROR.values()), 1e-1))
def test_a_key_gives_its_workload_back(workload: Workload, max_error: float) -> None:
    exact = workload.model_copy(update={"max_error": max_error})
    again = parse_key(exact.key)
    assert again == exact
    assert type(again) is type(exact)
    assert again.key == exact.key


DEFAULTS: dict[str, object] = {
    **{"bias": False, "residual": False, "activation": "none", "direction": "forward"},
    **dict.fromkeys(["K", "KH", "KW", "padding"]),
}
DEFAULTS_OF: dict[str, dict[str, object]] = {
    "conv1d": {"B": 1, "C": 1, "stride": 1, "dilation": 1, "layout": "NCW", "gated": False},
    "depthwise_conv2d": {"dilation": 1, "multiplier": 1, "layout": "NCHW"},
}


@given(WORKLOADS | small_conv1d() | GRADIENTS)
def test_a_key_is_canonical_json(workload: Workload) -> None:
    """The key has all fields except those that were added later and have their defaults."""
    fields = json.loads(workload.key)
    whole = workload.model_dump(mode="json").items()
    defaults = DEFAULTS | DEFAULTS_OF[workload.operator]
    assert fields == {
        "operator": workload.operator,
        **{name: value for name, value in whole if name not in defaults or value != defaults[name]},
    }
    assert workload.key == json.dumps(fields, sort_keys=True, separators=(",", ":"))


@given(WORKLOADS, WORKLOADS)
def test_different_workloads_have_different_keys(a: Workload, b: Workload) -> None:
    assert (a.key == b.key) == (a == b and a.operator == b.operator)


@given(WORKLOADS)
def test_the_order_of_the_fields_does_not_matter(workload: Workload) -> None:
    backwards = dict(reversed(workload.model_dump().items()))
    assert type(workload).model_validate(backwards).key == workload.key


def test_error_for_an_unknown_operator_names_the_known_ones() -> None:
    with pytest.raises(UnknownOperator, match=r"'conv3d'; known are: conv1d, depthwise_conv2d"):
        operator("conv3d")


@pytest.mark.parametrize("key", ["[]", "1", "null", '"x"', "", "{", "conv1d", "[" * 5000])
def test_a_key_that_is_no_object_is_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        parse_key(key)


def test_error_for_an_operator_that_is_no_string_names_the_known_ones() -> None:
    with pytest.raises(UnknownOperator, match=r"\['conv1d'\].*; known are: conv1d"):
        parse_key('{"operator":["conv1d"]}')


@pytest.mark.parametrize("key", ["{}", '{"M":9,"N":3}'])
def test_error_for_a_key_without_an_operator_names_the_known_ones(key: str) -> None:
    with pytest.raises(UnknownOperator, match=r"''; known are: conv1d, depthwise_conv2d"):
        parse_key(key)
