"""The gradient of an input, channels last, on CUDA: what it computes, emulated on the CPU, and what
it serves."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.depthwise_conv2d.cuda.gradients.input_channels import CudaInputChannels
from templates.depthwise_conv2d.cuda.gradients.schedules import input_channels as program
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.epilogue import Activation
from templates.kernels.written import DERIVATIVE, filled
from tests.templates import emulated
from tests.templates.devices import H200
from tests.templates.shapes import windows
from tuner.measure.check import relative_error

BOUNDED = settings(max_examples=20, derandomize=True, deadline=None, database=None)
LAYER = {"B": 3, "C": 24, "H": 28, "W": 28, "K": 5, "stride": 2, "layout": "NHWC"}


def workload(**fields: Any) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload.model_validate(LAYER | fields | {"direction": "backward_input"})


@st.composite
def layers(draw: st.DrawFn) -> DepthwiseConv2dWorkload:
    """Small ones with a stride: planes of one row or column and kernels larger than them often."""
    extent = st.sampled_from([1, 2, 7, 13]) | st.integers(1, 17)
    window = draw(windows(most=9)) | {"multiplier": 1, "layout": "NHWC", "K": None}
    shape = {"B": draw(st.integers(1, 3)), "C": draw(st.sampled_from([1, 3, 4, 12]))}
    steps = {
        "stride": draw(st.sampled_from([2, 2, 3, 4])),
        "activation": draw(st.sampled_from(get_args(Activation))),
    }
    return workload(**window | shape | steps | {"H": draw(extent), "W": draw(extent)})


def assert_right(layer: DepthwiseConv2dWorkload, config: dict[str, Any], apart: int) -> None:
    """With tensors so many elements from a vector's boundary."""
    rng, given = np.random.default_rng(0), []
    for argument in layer.given:
        memory = np.empty(argument.elements + apart, "f4")[apart:].reshape(argument.shape)
        memory[...] = rng.standard_normal(argument.shape)
        given.append(memory)
    text = filled(program.numbers(layer, config), DERIVATIVE, program.SOURCE)
    output = emulated.run(layer, text, [program.launch(layer, config)], given, 0)
    reference = templates.operator(layer.operator).reference(layer, *given)
    assert relative_error(output, reference, None) <= 2e-6


@BOUNDED
@given(data=st.data(), apart=st.sampled_from([0, 0, 0, 1]))
def test_any_configuration_is_right(data: st.DataObject, apart: int) -> None:
    layer = data.draw(layers())
    space = CudaInputChannels().space(layer, H200)
    assert CudaInputChannels().default(layer, H200) in space
    assert_right(layer, space[data.draw(st.integers(0, len(space) - 1))], apart)


@pytest.mark.parametrize(
    ("fields", "serves"),
    [
        ({}, True),
        ({"stride": 1}, False),  # a forward template's
        ({"stride": 1, "activation": "silu"}, True),
        ({"stride": 1, "padding": [5, 2, 2, 2]}, True),
        ({"multiplier": 2}, False),
        ({"layout": "NCHW"}, False),
        ({"K": 17}, False),
    ],
    ids=str,
)
def test_it_serves_what_no_forward_template_can(fields: dict[str, Any], serves: bool) -> None:
    found = templates.templates_for(workload(**fields), H200)
    assert ("input_channels" in {template.name for template in found}) == serves
