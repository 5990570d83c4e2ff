"""The CUDA template for channels last: the workloads that it serves, where it keeps weights, and
what it computes."""

from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import templates
from templates.depthwise_conv2d.cuda.channels import CudaChannels
from templates.depthwise_conv2d.cuda.schedules import channels as program
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import render
from templates.kernels.launches.early_launch import WAIT
from tests.templates import emulated
from tests.templates.devices import H200

LAYER = {"B": 2, "C": 24, "H": 28, "W": 28, "K": 7, "layout": "NHWC"}


def workload(**fields: Any) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "serving"),
    [
        ({}, ["channels"]),
        ({"stride": 3, "dilation": 2, "padding": [0, 1, 9, 4]}, ["channels"]),
        ({"multiplier": 2}, ["direct", "tiled"]),
        ({"layout": "NCHW", "stride": 3}, ["direct", "tiled"]),
    ],
    ids=str,
)
def test_channels_alone_serves_channels_last_without_multiplier(
    fields: dict[str, Any], serving: list[str]
) -> None:
    """Float32 workloads with channels last and no multiplier have this template only; the others
    have other templates."""
    found = templates.templates_for(workload(**fields), H200)
    assert sorted(template.name for template in found) == serving


def test_kernel_size_decides_where_weights_may_be_kept() -> None:
    template = CudaChannels()
    for K, places in (
        (3, ["loaded", "registers"]),
        (7, ["loaded", "registers", "shared"]),
        (31, ["shared"]),
    ):
        knobs = {knob.name: knob for knob in template.space(workload(K=K), H200).knobs}
        assert list(knobs["weights"].values) == places


SMALL = st.fixed_dictionaries(
    {
        "B": st.integers(1, 3),
        "C": st.sampled_from([1, 3, 6, 16, 40]),
        "H": st.integers(1, 9),
        "W": st.integers(1, 11),
        "K": st.none(),
        "KH": st.integers(1, 6),
        "KW": st.integers(1, 6),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 2),
        "bias": st.booleans(),
        "residual": st.booleans(),
        "dtype": st.sampled_from(["float32", "float16", "bfloat16"]),
    }
)
LARGE = {"B": 1, "C": 16, "H": 7, "W": 9, "K": None, "KH": 5, "KW": 5, "stride": 1} | {
    "dilation": 1,
    "bias": True,
    "residual": False,
    "dtype": "bfloat16",
}
"""A layer whose weights may be in shared memory."""


@settings(max_examples=24, derandomize=True, deadline=None, database=None)
@given(
    fields=SMALL,
    before=st.tuples(*[st.integers(0, 3)] * 2),
    weights=st.sampled_from(["loaded", "registers", "shared"]),
    place=st.floats(0, 0.999),
    apart=st.sampled_from([0, 0, 0, 1]),
)
@example(fields=LARGE, before=(2, 1), weights="shared", place=0.7, apart=0)
@example(fields=LARGE, before=(2, 1), weights="loaded", place=0.7, apart=1)
def test_any_configuration_is_right(
    fields: dict[str, Any], before: tuple[int, int], weights: str, place: float, apart: int
) -> None:
    padding = [*before, fields["KH"] * fields["dilation"], fields["KW"] * fields["dilation"]]
    layer, template = workload(**fields, padding=padding), CudaChannels()
    space = template.space(layer, H200)
    configs = [config for config in space if config["weights"] == weights]
    assume(configs)
    config = configs[int(place * len(configs))]
    text = render(program.numbers(layer, config), WAIT, program.SOURCE, program.WEIGHTS[weights])
    text = f"constexpr bool HAS_BIAS = {int(layer.bias)};\n{text}"
    launch = program.launch(layer, config)
    assert emulated.error(layer, text, [launch], apart=apart) <= layer.max_error
