from typing import Any

import numpy as np
import pytest
from hypothesis import given
from pydantic import ValidationError

from templates.conv1d.workload import Conv1dWorkload
from templates.dtypes import in_numpy
from tests.templates.shapes import any_conv1d, small_conv1d


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"M": 0}, "M", "greater than or equal to 1"),
        ({"N": 0}, "N", "greater than or equal to 1"),
        ({"M": -5}, "M", "greater than or equal to 1"),
        ({"M": 2**24 + 1}, "M", "less than or equal to 16777216"),
        ({"M": 10**40}, "M", "less than or equal to 16777216"),
        ({"M": 2**17, "N": 2**16 + 1}, "N", "less than or equal to 65536"),
        ({"mode": "circular"}, "mode", "'full', 'same', 'valid' or 'causal'"),
        ({"kind": "convolution"}, "kind", "'convolve' or 'correlate'"),
        ({"dtype": "float64"}, "dtype", "'float32', 'float16' or 'bfloat16'"),
        ({"max_error": 0.0}, "max_error", "greater than or equal to 0.000001"),
        ({"max_error": 0.2}, "max_error", "less than or equal to 0.1"),
        ({"max_error": float("nan")}, "max_error", "0.1"),
        ({"taps": 3}, "taps", "not permitted"),
        ({"operator": "conv1d"}, "operator", "not permitted"),
    ],
)
def test_refuses_what_a_field_may_not_be(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate({"M": 100, "N": 7, **fields})
    (error,) = refused.value.errors()
    assert error["loc"] == (field,)
    assert message in error["msg"]


@pytest.mark.parametrize("missing", ["M", "N"])
def test_names_a_missing_field(missing: str) -> None:
    fields = {"M": 100, "N": 7}
    del fields[missing]
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate(fields)
    assert [error["loc"] for error in refused.value.errors()] == [(missing,)]


@pytest.mark.parametrize(
    ("fields", "field", "limit", "way_out"),
    [
        ({"M": 10, "N": 11}, "N", "at most M = 10", "swap input and kernel"),
        ({"M": 2**24, "N": 2**16}, "M", "at most 2^40", "split the input"),
        ({"M": 2**23, "N": 2**16}, "M", "at most 2^40", "split the input"),
        (
            {"M": 9, "N": 2, "dtype": "float16", "max_error": 4.9e-4},
            "max_error",
            "at least 0.0005 for float16",
            "take dtype float32",
        ),
    ],
)
def test_a_limit_between_fields_names_field_limit_and_way_out(
    fields: dict[str, Any], field: str, limit: str, way_out: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate(fields)
    (error,) = refused.value.errors()
    assert error["ctx"]["field"] == field
    assert limit in error["msg"] and way_out in error["msg"]


@pytest.mark.parametrize("kind", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_a_kernel_that_is_longer_than_the_input_has_a_way_out(kind: str, mode: Any) -> None:
    """What the message says, done by NumPy, gives what was asked."""
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate({"M": 4, "N": 7, "kind": kind, "mode": mode})
    message = refused.value.errors()[0]["msg"]
    draw = np.random.default_rng(0)
    x, w = draw.standard_normal(4), draw.standard_normal(7)
    operator = getattr(np, kind)
    swapped = operator(w, x, mode)
    assert "swap input and kernel" in message
    if "reverse the output" in message:
        swapped = swapped[::-1]
    np.testing.assert_allclose(swapped, operator(x, w, mode))


def test_accepts_the_limits_themselves() -> None:
    assert Conv1dWorkload(M=1, N=1).length == 1
    assert Conv1dWorkload(M=2**24, N=2**15, mode="same").flops == 2**40
    assert Conv1dWorkload(M=2**23, N=2**16, mode="same").flops == 2**40


@pytest.mark.parametrize("value", [10.0, 10.5, True, "10", None, [10]])
def test_an_extent_is_an_integer_and_nothing_else(value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate({"M": value, "N": 3})
    assert refused.value.errors()[0]["loc"] == ("M",)


def test_a_query_string_gives_the_same_workload() -> None:
    asked = Conv1dWorkload.model_validate_strings(
        {"M": "16384", "N": "32", "mode": "valid", "max_error": "1e-4"}
    )
    assert asked == Conv1dWorkload(M=16384, N=32, mode="valid", max_error=1e-4)


@pytest.mark.parametrize("text", ["16384.0", "1e3", "", "true", "16_384", "0x10", "ten", "NaN"])
def test_a_query_string_that_is_no_integer_is_refused(text: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate_strings({"M": text, "N": "1"})
    (error,) = refused.value.errors()
    assert error["loc"] == ("M",)
    assert "integer" in error["msg"]


@given(small_conv1d())
def test_length_is_numpys(workload: Conv1dWorkload) -> None:
    a, b = np.ones(workload.M), np.ones(workload.N)
    numpys = {"convolve": np.convolve, "correlate": np.correlate}[workload.kind]
    if workload.mode == "causal":
        assert workload.output.shape == a.shape
    else:
        assert workload.output.shape == numpys(a, b, workload.mode).shape


@given(any_conv1d())
def test_counts(workload: Conv1dWorkload) -> None:
    (L,) = workload.output.shape
    assert [argument.shape for argument in workload.given] == [(workload.M,), (workload.N,)]
    assert workload.flops == 2 * L * workload.N <= 2**40
    size = in_numpy(workload.dtype).itemsize
    assert workload.bytes == size * (workload.M + workload.N + L)


def test_the_dtype_decides_the_error_that_is_allowed_where_none_is_given() -> None:
    assert Conv1dWorkload(M=5, N=2).max_error == 1e-5
    half = Conv1dWorkload(M=5, N=2, dtype="float16")
    assert half.max_error == 1e-3
    assert half == Conv1dWorkload(M=5, N=2, dtype="float16", max_error=1e-3)
    assert Conv1dWorkload(M=5, N=2, dtype="float16", max_error=5e-4).max_error == 5e-4
    strings = {"M": "5", "N": "2", "dtype": "float16"}
    assert Conv1dWorkload.model_validate_strings(strings) == half
    assert Conv1dWorkload.model_validate_json('{"M": 5, "N": 2, "dtype": "float16"}') == half


def test_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Conv1dWorkload(M=5, N=2).M = 6  # type: ignore[misc]
