"""Conv1dWorkload: its fields, limits, defaults, arguments and counts of work."""

import math
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
        ({"padding": [1]}, "padding", "two whole numbers from 0 to 16777216: before and behind"),
        ({"padding": [-1, 0]}, "padding", "two whole numbers"),
        ({"stride": 0}, "stride", "greater than or equal to 1"),
        ({"dilation": 2**16 + 1}, "dilation", "less than or equal to 65536"),
        ({"layout": "NCHW"}, "layout", "'NCW' or 'NWC'"),
        ({"taps": 3}, "taps", "not permitted"),
        ({"operator": "conv1d"}, "operator", "not permitted"),
    ],
)
def test_conv1d_refuses_a_wrong_value_and_names_its_field(
    fields: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate({"M": 100, "N": 7, **fields})
    (error,) = refused.value.errors()
    assert error["loc"] == (field,)
    assert message in error["msg"]


@pytest.mark.parametrize("missing", ["M", "N"])
def test_conv1d_names_a_missing_field(missing: str) -> None:
    fields = {"M": 100, "N": 7}
    del fields[missing]
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate(fields)
    assert [error["loc"] for error in refused.value.errors()] == [(missing,)]


@pytest.mark.parametrize(
    ("fields", "field", "limit", "way_out"),
    [
        ({"M": 10, "N": 11, "mode": "valid"}, "N", "spans 11 samples", "as mode full does"),
        (
            {"M": 9, "N": 5, "dilation": 4, "padding": [3, 4]},
            "N",
            "and padding have 16",
            "pad more",
        ),
        ({"M": 9, "N": 2**16, "dilation": 2**16}, "dilation", "at most 2^24", "smaller dilation"),
        ({"M": 9, "N": 3, "C": 8, "groups": 4}, "groups", "must be C = 8 or 1", "by itself"),
        ({"M": 9, "N": 3, "C": 8, "F": 12}, "F", "a multiple of C = 8", "groups 1"),
        ({"M": 9, "N": 3, "mode": "same", "padding": [0, 0]}, "padding", "not both", "give mode"),
        ({"M": 2**24, "N": 1, "B": 65}, "B", "at most 2^30 elements", "split the batch"),
        ({"M": 4, "N": 5, "C": 2**20, "groups": 1}, "C", "weight has", "or the channels"),
        ({"M": 1, "N": 1, "B": 2**30, "residual": True}, "B", "at most 2^33 bytes", "split"),
        ({"M": 2**24, "N": 2**16, "B": 8}, "M", "at most 2^44", "split the input"),
        ({"M": 2**23, "N": 2**16, "padding": [0, 2**16]}, "M", "at most 2^40", "split the input"),
        ({"M": 2**23, "N": 2**10, "C": 16, "groups": 1}, "M", "at most 2^40", "split the input"),
        (
            {"M": 9, "N": 2, "dtype": "float16", "max_error": 4.9e-4},
            "max_error",
            "at least 0.0005 for float16",
            "take dtype float32",
        ),
    ],
)
def test_conv1d_refusal_by_a_joint_limit_names_field_limit_and_way_out(
    fields: dict[str, Any], field: str, limit: str, way_out: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        Conv1dWorkload.model_validate(fields)
    (error,) = refused.value.errors()
    assert error["ctx"]["field"] == field
    assert limit in error["msg"] and way_out in error["msg"]


@pytest.mark.parametrize(
    ("fields", "equal"),
    [
        ({"F": 4}, {}),
        ({"groups": 4}, {}),
        ({"padding": (2, 2)}, {"mode": "full"}),
        ({"padding": (2, 0)}, {"mode": "causal"}),
        ({"padding": (1, 1)}, {"mode": "same"}),
        ({"padding": (0, 0)}, {"mode": "valid"}),
        ({"padding": (6, 0), "dilation": 3}, {"mode": "causal", "dilation": 3}),
        ({"padding": "3,0", "kind": "correlate"}, {"padding": [3, 0], "kind": "correlate"}),
        ({"B": 1, "stride": 1, "dilation": 1, "layout": "NCW"}, {}),
    ],
    ids=str,
)
def test_conv1d_fields_of_equal_meaning_give_equal_workloads(
    fields: dict[str, Any], equal: dict[str, Any]
) -> None:
    """Workloads whose fields mean the same, in defaults or as padding for a mode, have one key."""
    shape = {"M": 20, "N": 3, "C": 4}
    one, other = (Conv1dWorkload.model_validate(shape | each) for each in (fields, equal))
    assert (one, one.key) == (other, other.key)


def test_one_signal_has_no_layout_and_one_dimension() -> None:
    one = Conv1dWorkload(M=20, N=3, B=1, C=1, F=1, groups=1, layout="NWC")
    assert one == Conv1dWorkload(M=20, N=3)
    assert [argument.shape for argument in one.arguments] == [(20,), (3,), (22,)]
    signals = Conv1dWorkload(M=20, N=3, B=2, C=4, F=6, groups=1, layout="NWC", mode="causal")
    assert [each.shape for each in signals.arguments] == [(2, 20, 4), (6, 4, 3), (2, 20, 6)]


def test_conv1d_accepts_values_at_its_limits() -> None:
    assert Conv1dWorkload(M=1, N=1).length == 1
    assert Conv1dWorkload(M=2**22, N=2**10, C=16, F=8, groups=1, mode="same").flops == 2**40
    assert Conv1dWorkload(M=2**24, N=2**16, mode="same", B=8).flops == 2**44


@pytest.mark.parametrize("value", [10.0, 10.5, True, "10", None, [10]])
def test_conv1d_extent_must_be_an_integer(value: object) -> None:
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


@given(small_conv1d(plain=True))
def test_conv1d_output_length_equals_numpys(workload: Conv1dWorkload) -> None:
    a, b = np.ones(workload.M), np.ones(workload.N)
    numpys = {"convolve": np.convolve, "correlate": np.correlate}[workload.kind]
    if workload.mode == "causal":
        assert workload.output.shape == a.shape
    else:
        assert workload.output.shape == numpys(a, b, workload.mode).shape


@given(any_conv1d())
def test_conv1d_counts_elements_flops_and_bytes(workload: Conv1dWorkload) -> None:
    F, summed = workload.out_channels, workload.C if workload.groups == 1 else 1
    inside, weight = workload.B * workload.C * workload.M, F * summed * workload.N
    outside = workload.B * F * workload.length
    assert [math.prod(each.shape) for each in workload.arguments] == [inside, weight, outside]
    assert workload.flops == 2 * outside * summed * workload.N
    assert workload.flops <= (2**44 if workload.is_rows else 2**40)
    size = in_numpy(workload.dtype).itemsize
    assert workload.bytes == size * (inside + weight + outside) <= 2**33


def test_default_max_error_depends_on_the_dtype() -> None:
    assert Conv1dWorkload(M=5, N=2).max_error == 1e-5
    half = Conv1dWorkload(M=5, N=2, dtype="float16")
    assert half.max_error == 1e-3
    assert half == Conv1dWorkload(M=5, N=2, dtype="float16", max_error=1e-3)
    assert Conv1dWorkload(M=5, N=2, dtype="float16", max_error=5e-4).max_error == 5e-4
    strings = {"M": "5", "N": "2", "dtype": "float16"}
    assert Conv1dWorkload.model_validate_strings(strings) == half
    assert Conv1dWorkload.model_validate_json('{"M": 5, "N": 2, "dtype": "float16"}') == half


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_max_error_that_a_refusal_advises_can_be_kept(dtype: str) -> None:
    with pytest.raises(ValidationError, match="because outputs are rounded to it") as refused:
        Conv1dWorkload(M=5, N=2, dtype=dtype, max_error=1e-5)
    advised = float(str(refused.value).partition("allow ")[2].partition(",")[0])
    outputs = np.linspace(1, 1 + 1 / 64, 4096)  # just above a power of two
    rounded = outputs.astype(in_numpy(dtype)).astype(np.float64)
    assert np.abs(rounded - outputs).max() / outputs.max() < advised


def test_workload_is_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Conv1dWorkload(M=5, N=2).M = 6  # type: ignore[misc]
