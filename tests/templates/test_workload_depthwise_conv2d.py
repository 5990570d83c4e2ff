"""DepthwiseConv2dWorkload: its fields, limits, defaults, arguments and counts of work."""

from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.templates.shapes import any_depthwise_conv2d

SHAPE = {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7}


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        *(({name: 0}, name, "greater than or equal to 1") for name in SHAPE),
        ({"B": 2**31}, "B", "less than or equal to 2147483647"),
        ({"K": 65}, "K", "less than or equal to 63"),
        ({"K": 64}, "K", "less than or equal to 63"),
        ({"stride": 0}, "stride", "1, 2, 3 or 4"),
        ({"stride": 5}, "stride", "1, 2, 3 or 4"),
        ({"padding": 3}, "padding", "four whole numbers"),
        ({"padding": [1, 1]}, "padding", "top, left, bottom and right"),
        ({"padding": [1, 1, 1, -1]}, "padding", "from 0 to 1023"),
        ({"padding": "1,1,1,x"}, "padding", "four whole numbers"),
        ({"dilation": 0}, "dilation", "greater than or equal to 1"),
        ({"multiplier": 0}, "multiplier", "greater than or equal to 1"),
        ({"layout": "NWHC"}, "layout", "'NCHW' or 'NHWC'"),
        ({"paddings": [1, 1, 1, 1]}, "paddings", "not permitted"),
        ({"max_error": 1e-7}, "max_error", "greater than or equal to 0.000001"),
    ],
)
def test_depthwise_refuses_a_wrong_value_and_names_its_field(
    fields: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        DepthwiseConv2dWorkload.model_validate({**SHAPE, **fields})
    (error,) = refused.value.errors()
    assert error["loc"] == (field,)
    assert message in error["msg"]


def test_the_json_schema_has_the_limits_of_every_extent() -> None:
    fields = DepthwiseConv2dWorkload.model_json_schema()["properties"]
    limits = {name: (fields[name]["minimum"], fields[name]["maximum"]) for name in "BCHW"}
    assert limits == dict.fromkeys("BCHW", (1, 2**31 - 1))
    for name in ("K", "KH", "KW"):
        extent, nothing = fields[name]["anyOf"]
        assert (extent["minimum"], extent["maximum"], nothing) == (1, 63, {"type": "null"})


@pytest.mark.parametrize("missing", list("BCHW"))
def test_depthwise_names_a_missing_field(missing: str) -> None:
    fields = {name: value for name, value in SHAPE.items() if name != missing}
    with pytest.raises(ValidationError) as refused:
        DepthwiseConv2dWorkload.model_validate(fields)
    assert [error["loc"] for error in refused.value.errors()] == [(missing,)]


@pytest.mark.parametrize(
    ("fields", "field", "limit", "way_out"),
    [
        ({"K": None}, "K", "kernel's height and width", "or both KH and KW"),
        ({"K": None, "KH": 3}, "K", "kernel's height and width", "or both KH and KW"),
        ({"KH": 3, "KW": 3}, "K", "kernel's height and width", "or both KH and KW"),
        ({"padding": [0, 0, 0, 0], "H": 6}, "padding", "input and padding have 6", "pad more"),
        ({"dilation": 171}, "dilation", "at most 1023, but it is 1026", "smaller dilation"),
        ({"B": 2**20}, "B", "at most 2^31 bytes", "split the batch"),
        ({"C": 2**20}, "B", "at most 2^31 bytes", "channels"),
        (dict.fromkeys("BCHW", 2**31 - 1), "B", "at most 2^31 bytes", "split the batch"),
        (
            {"dtype": "float16", "max_error": 1e-5},
            "max_error",
            "at least 0.0005 for float16",
            "take dtype float32",
        ),
    ],
)
def test_depthwise_refusal_by_a_joint_limit_names_field_limit_and_way_out(
    fields: dict[str, Any], field: str, limit: str, way_out: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        DepthwiseConv2dWorkload.model_validate({**SHAPE, **fields})
    (error,) = refused.value.errors()
    assert error["ctx"]["field"] == field
    assert limit in error["msg"] and way_out in error["msg"]


def test_depthwise_accepts_values_at_its_limits() -> None:
    assert DepthwiseConv2dWorkload(B=1, C=1, H=1, W=1, K=63, stride=2).output.shape == (1, 1, 1, 1)
    assert DepthwiseConv2dWorkload(B=2**28 - 1, C=1, H=1, W=1, K=1).bytes == 2**31 - 4
    half = DepthwiseConv2dWorkload(B=2**29 - 1, C=1, H=1, W=1, K=1, dtype="float16")
    assert half.bytes == 2**31 - 2


@pytest.mark.parametrize("name", [*SHAPE, "stride"])
@pytest.mark.parametrize("value", [1.0, True, "1"])
def test_depthwise_extent_must_be_an_integer(name: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        DepthwiseConv2dWorkload.model_validate({**SHAPE, name: value})
    assert refused.value.errors()[0]["loc"] == (name,)


def test_a_query_string_gives_the_same_workload() -> None:
    strings = {name: str(value) for name, value in SHAPE.items()}
    asked = DepthwiseConv2dWorkload.model_validate_strings({**strings, "stride": "2"})
    assert asked == DepthwiseConv2dWorkload(**SHAPE, stride=2)


@pytest.mark.parametrize("name", [*SHAPE, "stride"])
@pytest.mark.parametrize("text", ["1.0", "1e0", "true", ""])
def test_a_query_string_that_is_no_integer_is_refused(name: str, text: str) -> None:
    strings = {name: str(value) for name, value in SHAPE.items()}
    with pytest.raises(ValidationError) as refused:
        DepthwiseConv2dWorkload.model_validate_strings({**strings, name: text})
    assert refused.value.errors()[0]["loc"] == (name,)


@pytest.mark.parametrize(
    ("H", "W", "stride", "height", "width"),
    [(16, 32, 1, 16, 32), (16, 31, 2, 8, 16), (1, 1, 2, 1, 1), (2, 3, 2, 1, 2)],
)
def test_depthwise_output_shape_equals_pytorchs(
    H: int, W: int, stride: int, height: int, width: int
) -> None:
    workload = DepthwiseConv2dWorkload(B=2, C=3, H=H, W=W, K=5, stride=stride)
    assert workload.output.shape == (2, 3, height, width)


@pytest.mark.parametrize(
    "same",
    [
        {"KH": 7, "KW": 7},
        {"K": 7, "padding": [3, 3, 3, 3]},
        {"K": 7, "padding": "3,3, 3,3"},
        {"K": 7, "dilation": 1, "multiplier": 1, "layout": "NCHW"},
    ],
)
def test_depthwise_fields_of_equal_meaning_give_equal_workloads(same: dict[str, Any]) -> None:
    """Workloads whose fields mean the same, K or KH and KW for example, have one key."""
    shape = {name: SHAPE[name] for name in "BCHW"}
    workload = DepthwiseConv2dWorkload.model_validate({**shape, **same})
    usual = DepthwiseConv2dWorkload(**SHAPE)
    assert (workload, workload.key, workload.is_basic) == (usual, usual.key, True)


def test_query_string_gives_the_padding_separated_by_commas() -> None:
    asked = DepthwiseConv2dWorkload.model_validate_strings(
        {"B": "1", "C": "8", "H": "5", "W": "9", "KH": "1", "KW": "4", "padding": "0,1,0,2"}
    )
    assert (asked.kernel, asked.pads) == ((1, 4), (0, 1, 0, 2))
    assert asked.output.shape == (1, 8, 5, 9)


@given(any_depthwise_conv2d())
def test_depthwise_counts_elements_flops_and_bytes(workload: DepthwiseConv2dWorkload) -> None:
    B, C, H, W, s = (getattr(workload, name) for name in ("B", "C", "H", "W", "stride"))
    (KH, KW), F = workload.kernel, C * workload.multiplier
    top, left, bottom, right = workload.pads
    # PyTorch's formula for conv2d
    height = (H + top + bottom - workload.dilation * (KH - 1) - 1) // s + 1
    width = (W + left + right - workload.dilation * (KW - 1) - 1) // s + 1
    shapes = [argument.shape for argument in workload.arguments]
    if workload.layout == "NCHW":
        assert shapes == [(B, C, H, W), (F, 1, KH, KW), (B, F, height, width)]
    else:
        assert shapes == [(B, H, W, C), (F, 1, KH, KW), (B, height, width, F)]
    assert workload.flops == 2 * KH * KW * B * F * height * width
    size = {"float32": 4, "float16": 2, "bfloat16": 2}[workload.dtype]
    elements = B * C * H * W + F * KH * KW + B * F * height * width
    assert workload.bytes == size * elements <= 2**31


@given(any_depthwise_conv2d())
def test_unused_taps_meet_only_padding(workload: DepthwiseConv2dWorkload) -> None:
    pads, outputs = workload.pads, (workload.out_height, workload.out_width)
    for axis, (extent, taps) in enumerate(
        zip((workload.H, workload.W), workload.used_taps, strict=True)
    ):
        size = workload.kernel[axis]
        ends = (0, (outputs[axis] - 1) * workload.stride)
        far = [tap for tap in range(size) if not taps.first <= tap < taps.first + taps.count]
        for tap in far:
            first, last = (end + tap * workload.dilation - pads[axis] for end in ends)
            assert last < 0 or first >= extent
        assert taps.before == pads[axis] - taps.first * workload.dilation
