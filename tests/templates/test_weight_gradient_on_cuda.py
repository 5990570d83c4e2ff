"""CUDA templates for the gradient of a depthwise weight: their results, emulated on a CPU, the
workloads that they serve, and their registers and stack."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import templates
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda.gradients.schedules import weight_channels as program
from templates.depthwise_conv2d.cuda.gradients.schedules import weight_matrices as products
from templates.depthwise_conv2d.cuda.gradients.weight_channels import (
    CudaWeightChannels,
    CudaWeightPlanes,
)
from templates.depthwise_conv2d.cuda.gradients.weight_matrices import (
    CudaWeightMatrices,
    bias_tap,
)
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import render
from tests.templates import emulated
from tests.templates.cuda_source import cubin, registers_and_stack, source, taken
from tests.templates.devices import H200, T4
from tests.templates.shapes import windows

PRODUCTS = Path(__file__).with_name("emulated_products.h")
BOUNDED = settings(max_examples=12, derandomize=True, deadline=None, database=None)
LAYER = {
    "B": 4,
    "C": 24,
    "H": 28,
    "W": 28,
    "K": 7,
    "layout": "NHWC",
    "direction": "backward_weight",
}


def workload(**fields: Any) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload.model_validate(LAYER | fields)


@st.composite
def layers(draw: st.DrawFn, inputs: str = "registers") -> DepthwiseConv2dWorkload:
    """Draw a small workload; one channel, planes of one row or column, and kernels larger than the
    plane are frequent.

    Most of them have configurations whose knob ``inputs`` has the value asked for.
    """
    extent = st.sampled_from([1, 2, 7, 13]) | st.integers(1, 17)
    fields = draw(windows(most=9)) | {"bias": draw(st.booleans())}
    fields["activation"] = draw(st.sampled_from(["none", "none", "silu", "gelu"]))
    if inputs != "registers":
        fields["multiplier"] = 1
    channels = [4, 8, 12] if inputs == "shared" else [1, 3, 4, 8, 12]
    shape = {"B": draw(st.integers(1, 5)), "C": draw(st.sampled_from(channels))}
    plane = {"H": draw(extent), "W": draw(extent), "K": None}
    return workload(**fields | shape | plane | {"layout": "NHWC"})


def error(work: DepthwiseConv2dWorkload, config: dict[str, Any], apart: int = 0) -> float:
    """Return the relative error of a configuration, emulated, on normal inputs that begin ``apart``
    elements behind a vector's boundary."""
    text = render(program.numbers(work, config), *program.sources(config))
    floats = program.work(work, config).workspace
    return emulated.error(work, text, program.both_launches(work, config), floats, apart)


@pytest.mark.parametrize("inputs", ["registers", "private", "shared"])
@BOUNDED
@given(data=st.data())
def test_any_configuration_is_right(inputs: str, data: st.DataObject) -> None:
    layer = data.draw(layers(inputs))
    space = CudaWeightChannels().space(layer, H200)
    config = space[data.draw(st.integers(0, len(space) - 1))]
    for _ in range(40):  # so that rare values of ``inputs`` are tried as often as the others
        if config["inputs"] == inputs:
            break
        config = space[data.draw(st.integers(0, len(space) - 1))]
    assume(config["inputs"] == inputs)
    assert error(layer, config) <= 2e-6


@pytest.mark.parametrize("bias", [False, True])
@BOUNDED
@given(data=st.data())
def test_any_configuration_of_matrices_is_right(bias: bool, data: st.DataObject) -> None:
    drawn = data.draw(layers()).model_dump(exclude_none=True, exclude={"max_error", "multiplier"})
    vectors = {
        "C": data.draw(st.sampled_from([8, 16])),
        "dtype": data.draw(st.sampled_from(["float16", "bfloat16"])),
        "activation": "none",
    }
    layer = workload(**{"K": None} | drawn | vectors | {"bias": bias})
    assume(CudaWeightMatrices().applies(layer, H200))
    space = CudaWeightMatrices().space(layer, H200)
    config = space[data.draw(st.integers(0, len(space) - 1))]
    text = PRODUCTS.read_text() + render(products.numbers(layer, config), *products.SOURCES)
    floats = products.work(layer, config).workspace
    assert (
        emulated.error(layer, text, products.both_launches(layer, config), floats)
        <= layer.max_error
    )


@settings(BOUNDED, max_examples=200)
@given(layer=layers())
def test_bias_is_summed_at_a_tap_that_meets_the_input_in_every_row(
    layer: DepthwiseConv2dWorkload,
) -> None:
    """No tap has the bias's sums otherwise, or if taps lie 8 or more outputs apart: eight outputs
    and their taps may take only the first 15 columns of a product, as the bias takes the last."""
    tap, (down, across) = bias_tap(layer), layer.used_taps
    first = [i * layer.stride - layer.pads[0] for i in range(layer.out_height)]
    meeting = [
        t
        for t in range(down.count)
        if all(0 <= row + (down.first + t) * layer.dilation < layer.H for row in first)
    ]
    apart = max(u * layer.dilation // layer.stride for u in range(across.count))
    assert tap == (meeting[0] if meeting and apart < 8 else None)


@BOUNDED
@given(data=st.data())
def test_any_configuration_of_planes_is_right(data: st.DataObject) -> None:
    drawn = data.draw(layers()).model_dump(exclude_none=True)
    layer = workload(**{"K": None} | drawn | {"layout": "NCHW"})
    space = CudaWeightPlanes().space(layer, H200)
    assert CudaWeightPlanes().default(layer, H200) in space
    config = space[data.draw(st.integers(0, len(space) - 1))]
    assert error(layer, config) <= 2e-6


@pytest.mark.parametrize("inputs", ["registers", "private", "shared"])
def test_weight_gradient_of_unaligned_tensors_is_right(inputs: str) -> None:
    layer = workload(B=2, C=16, H=9, W=10, K=3, stride=2, bias=True)
    space = CudaWeightChannels().space(layer, H200)
    config = next(c for c in space if c["inputs"] == inputs and c["channels"] == 4)
    assert error(layer, config, apart=1) <= 2e-6


@pytest.mark.parametrize(
    ("fields", "serving"),
    [
        ({}, ["weight_channels"]),
        ({"dtype": "bfloat16"}, ["weight_channels", "weight_matrices"]),
        ({"dtype": "bfloat16", "activation": "relu"}, ["weight_channels"]),
        ({"dtype": "bfloat16", "C": 20}, ["weight_channels"]),
        ({"dtype": "bfloat16", "K": 13}, ["weight_channels"]),
        ({"dtype": "bfloat16", "multiplier": 2}, ["weight_channels"]),
        ({"layout": "NCHW"}, ["weight_planes"]),
        ({"layout": "NCHW", "multiplier": 2}, ["weight_planes"]),
        ({"direction": "forward", "C": 20}, ["channels"]),
    ],
    ids=str,
)
def test_weight_gradient_templates_depend_on_dtype_layout_and_shape(
    fields: dict[str, Any], serving: list[str]
) -> None:
    found = templates.templates_for(workload(**fields), H200)
    names = {"weight_channels", "weight_matrices", "weight_planes", "channels"}
    assert sorted({template.name for template in found} & names) == serving


def test_t4_has_a_second_weight_gradient_template_only_for_float16() -> None:
    for dtype, serving in (("float16", 2), ("bfloat16", 1)):
        assert len(templates.templates_for(workload(dtype=dtype), T4)) == serving


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_several_kernels_of_a_channel_need_no_stack(layout: str, limits: Any) -> None:
    layer = workload(multiplier=3, dtype="float16", activation="silu", layout=layout, bias=True)
    (template,) = templates.templates_for(layer, limits)
    registers, stack = taken(template, layer, template.default(layer, limits), limits)
    assert (registers <= 255, stack) == (True, 0)


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
def test_weight_gradients_keep_their_sums_in_registers(limits: Any) -> None:
    layer = workload(dtype="float16", bias=True)
    for template in templates.templates_for(layer, limits):
        config = template.default(layer, limits)
        text = source(template, layer, config, limits)
        assert ("mma.sync" in text) == (template.name == "weight_matrices")
        registers, stack = registers_and_stack(cubin(text, limits.arch))
        assert (registers <= 255, stack) == (True, 0)


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
def test_private_inputs_of_a_weight_gradient_need_no_stack(limits: Any) -> None:
    layer, template = workload(dtype="float16", K=5, activation="relu"), CudaWeightChannels()
    config = next(c for c in template.space(layer, limits) if c["inputs"] == "private")
    registers, stack = taken(template, layer, config, limits)
    assert (registers <= 255, stack) == (True, 0)


@pytest.mark.parametrize("form", [CudaWeightChannels, CudaWeightMatrices])
def test_weight_gradient_launches_about_as_many_blocks_as_its_knob_says(form: Any) -> None:
    """A configuration launches about as many blocks as its knob ``blocks`` says, with at most one
    range of rows for each row."""
    layer = workload(B=32, C=96, H=56, W=56, dtype="bfloat16")
    room = importlib.import_module(form.__module__)
    for config in list(form().space(layer, H200))[::97]:
        share = room.work(layer, config)
        # a range has all columns, but a block may have only some of them
        least = share.across * ceil_div(share.groups, share.points)
        assert share.ranges <= share.rows
        assert config["blocks"] - 2 * least < share.blocks <= max(config["blocks"], least)
