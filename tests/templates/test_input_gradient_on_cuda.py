"""CUDA templates for the gradient of an input, in either layout: their results, emulated on a CPU,
the workloads that they serve, and their registers and stack."""

from typing import Any, get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import templates
from templates.depthwise_conv2d.cuda.gradients.input_channels import (
    CudaInputChannels,
    CudaInputPlanes,
)
from templates.depthwise_conv2d.cuda.gradients.schedules import input_channels as program
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.epilogue import Activation
from templates.kernels.cuda_source import DERIVATIVE, render
from tests.templates import emulated
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4
from tests.templates.shapes import windows

BOUNDED = settings(max_examples=12, derandomize=True, deadline=None, database=None)
FORMS: dict[str, Any] = {"NCHW": CudaInputPlanes(), "NHWC": CudaInputChannels()}
LAYER = {"B": 3, "C": 24, "H": 28, "W": 28, "K": 5, "stride": 2, "layout": "NHWC"}


def workload(**fields: Any) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload.model_validate(LAYER | fields | {"direction": "backward_input"})


@st.composite
def layers(draw: st.DrawFn, layout: str) -> DepthwiseConv2dWorkload:
    """Draw a small workload that no forward template can serve; planes of one row or column and
    kernels larger than the plane are frequent."""
    extent = st.sampled_from([1, 2, 7, 8, 13]) | st.integers(1, 17)
    window = draw(windows(most=9)) | {"layout": layout, "K": None}
    shape = {"B": draw(st.integers(1, 3)), "C": draw(st.sampled_from([1, 3, 4, 12]))}
    steps = {
        "stride": draw(st.sampled_from([1, 2, 2, 3, 4])),
        "activation": draw(st.sampled_from(get_args(Activation))),
    }
    layer = workload(**window | shape | steps | {"H": draw(extent), "W": draw(extent)})
    assume(layer.as_forward is None)
    return layer


def assert_right(layer: DepthwiseConv2dWorkload, config: dict[str, Any], apart: int) -> None:
    """Emulate a configuration and check it against the reference, on inputs that begin ``apart``
    elements behind a vector's boundary."""
    text = render(program.numbers(layer, config), DERIVATIVE, program.SOURCE)
    assert emulated.error(layer, text, [program.launch(layer, config)], apart=apart) <= 2e-6


@pytest.mark.parametrize("layout", FORMS)
@BOUNDED
@given(data=st.data(), apart=st.sampled_from([0, 0, 0, 1]))
def test_any_configuration_is_right(layout: str, data: st.DataObject, apart: int) -> None:
    layer, template = data.draw(layers(layout)), FORMS[layout]
    space = template.space(layer, H200)
    assert template.default(layer, H200) in space
    assert_right(layer, space[data.draw(st.integers(0, len(space) - 1))], apart)


@pytest.mark.parametrize(
    "fields",
    [
        {"B": 1, "C": 3, "H": 5, "W": 90, "K": None, "KH": 2, "KW": 63},
        {"B": 1, "C": 1, "H": 6, "W": 8, "K": 3, "dilation": 40, "padding": [41, 41, 41, 41]},
        {"B": 2, "C": 2, "H": 8, "W": 8, "K": 3, "multiplier": 5, "activation": "relu6"},
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", FORMS)
def test_input_gradient_of_wide_dilated_or_several_kernels_is_right(
    layout: str, fields: dict[str, Any]
) -> None:
    layer = workload(**fields | {"layout": layout})
    space = FORMS[layout].space(layer, H200)
    assert_right(layer, space[len(space) // 2], 0)


@pytest.mark.parametrize(
    ("fields", "serves"),
    [
        ({}, True),
        ({"stride": 1}, False),  # forward templates serve it
        ({"stride": 1, "activation": "silu"}, True),
        ({"stride": 1, "padding": [5, 2, 2, 2]}, True),
        ({"stride": 1, "multiplier": 2}, True),
        ({"K": 17}, True),
        ({"K": 17, "dilation": 2, "padding": [16, 16, 16, 16]}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", FORMS)
def test_input_gradient_templates_serve_only_gradients_without_a_forward_form(
    layout: str, fields: dict[str, Any], serves: bool
) -> None:
    found = templates.templates_for(workload(**fields | {"layout": layout}), H200)
    names = {template.name for template in found} & {each.name for each in FORMS.values()}
    assert names == ({FORMS[layout].name} if serves else set())


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("fields", [{}, {"multiplier": 2, "activation": "silu"}], ids=str)
@pytest.mark.parametrize("layout", FORMS)
def test_input_gradient_kernels_need_no_stack(
    layout: str, fields: dict[str, Any], limits: Any
) -> None:
    dtype = "float16" if limits is T4 else "bfloat16"
    layer, template = workload(layout=layout, dtype=dtype, **fields), FORMS[layout]
    registers, stack = taken(template, layer, template.default(layer, limits), limits)
    assert (registers <= 255, stack) == (True, 0)


@pytest.mark.parametrize("direction", ["backward_input", "backward_weight"])
@pytest.mark.parametrize("C", [26, 106, 127])
def test_default_is_in_the_space_if_lanes_leave_many_threads_idle(C: int, direction: str) -> None:
    """Rows of 26 lanes fill 104 of 128 threads, rows of 53 fill 106."""
    layer = workload(C=C, dtype="bfloat16").model_copy(update={"direction": direction})
    for template in templates.templates_for(layer, H200):
        assert template.default(layer, H200) in template.space(layer, H200)
