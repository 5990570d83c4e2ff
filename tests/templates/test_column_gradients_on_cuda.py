"""CUDA templates for gradients of signals with channels last, which use the templates of depthwise
convolution: their results, emulated on a CPU, and the workloads that they serve."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.conv1d.by_depthwise import CudaInputChannels, CudaWeightChannels
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.cuda.gradients.schedules import input_channels, weight_channels
from templates.kernels.cuda_source import DERIVATIVE, render
from tests.templates import emulated
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4

BOUNDED = settings(max_examples=12, derandomize=True, deadline=None, database=None)
BOTH = {"backward_input": CudaInputChannels(), "backward_weight": CudaWeightChannels()}
CAUSAL = {"B": 2, "C": 48, "M": 96, "N": 4, "mode": "causal", "kind": "correlate", "layout": "NWC"}


def gradient(direction: str, **fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(CAUSAL | fields | {"direction": direction})


@st.composite
def signals(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the fields of a small workload; one channel, one sample, and kernels and dilations that
    reach beyond the signal are frequent."""
    M, N = draw(st.sampled_from([1, 2, 31, 61])), draw(st.sampled_from([1, 2, 3, 4, 7, 17]))
    step = draw(st.sampled_from([1, 1, 2, M + 1]))
    reach = (N - 1) * step
    sides = (draw(st.integers(0, reach + 2)), draw(st.integers(reach, reach + 2)))
    return {
        "B": draw(st.integers(1, 3)),
        **draw(
            st.sampled_from([{"C": 2}, {"C": 3}, {"C": 12}, {"C": 1, "F": 3}, {"C": 4, "F": 8}])
        ),
        "M": M,
        "N": N,
        "dilation": step,
        "mode": None,
        "padding": sides,
        "kind": draw(st.sampled_from(["convolve", "correlate"])),
        "stride": draw(st.sampled_from([1, 1, 2, 3])),
        "activation": draw(st.sampled_from(["none", "silu", "relu6"])),
        "bias": draw(st.booleans()),
    }


@pytest.mark.parametrize("direction", BOTH)
@BOUNDED
@given(data=st.data())
def test_any_configuration_is_right(direction: str, data: st.DataObject) -> None:
    template: Any = BOTH[direction]
    work = gradient(direction, **data.draw(signals()))
    if work.as_forward is not None:
        assert not template.applies(work, H200)
        return
    space, image = template.space(work, H200), template.form(work)
    assert template.default(work, H200) in space
    config = space[data.draw(st.integers(0, len(space) - 1))]
    if direction == "backward_input":
        numbers = input_channels.numbers(image, config)
        text = render(numbers, DERIVATIVE, input_channels.SOURCE)
        launches, floats = [input_channels.launch(image, config)], 0
    else:
        numbers = weight_channels.numbers(image, config)
        text = render(numbers, *weight_channels.sources(config))
        launches = weight_channels.both_launches(image, config)
        floats = weight_channels.work(image, config).workspace
    assert emulated.error(work, text, launches, floats) <= 2e-6


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("direction", BOTH)
def test_causal_layer_gradients_compile_without_a_stack(direction: str, limits: Any) -> None:
    dtype = "float16" if limits is T4 else "bfloat16"
    work = gradient(direction, activation="silu", bias=True, dtype=dtype)
    template: Any = BOTH[direction]
    config = template.default(work, limits)
    registers, stack = taken(template, work, config, limits)
    assert (registers <= 255, stack) == (True, 0)


@pytest.mark.parametrize(
    ("fields", "serves"),
    [
        ({}, True),
        ({"kind": "convolve"}, True),
        ({"layout": "NCW"}, False),
        ({"groups": 1}, False),
        ({"F": 96}, True),
        ({"stride": 5}, False),
        ({"N": 64}, False),
        ({"N": 5, "dilation": 400}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("direction", BOTH)
def test_column_gradients_serve_layers_within_the_limits_of_depthwise_conv2d(
    direction: str, fields: dict[str, Any], serves: bool
) -> None:
    """The layers have channels last and a kernel for each channel. Kernel, stride and dilation stay
    within the limits of depthwise_conv2d."""
    work = gradient(direction, **{"activation": "silu"} | fields)
    found = {template.name for template in templates.templates_for(work, H200)}
    assert (BOTH[direction].name in found) == serves
