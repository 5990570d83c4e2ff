"""The tensor-core template for channels last: the workloads that it serves, the outputs and inputs
that its tiles cover, and its registers."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import templates
from templates.depthwise_conv2d.cuda.channels_toeplitz import CudaChannelsToeplitz
from templates.depthwise_conv2d.cuda.channels_toeplitz_layout import Layout
from templates.depthwise_conv2d.cuda.schedules import channels_toeplitz as program
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import render
from templates.kernels.launches.early_launch import WAIT
from tests.templates import emulated
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4

PRODUCTS = Path(__file__).with_name("emulated_products.h")
TENSOR = Path(__file__).with_name("emulated_copies.h"), program.COPIES["tensor"][-1]
COPIES = {"threads": (program.COPIES["threads"][-1],), "tensor": TENSOR}
THREADS = {
    "template": "channels_toeplitz",
    "tile_rows": 2,
    "warp_channels": 8,
    "fragments": 1,
    "copies": "threads",
    "resident": 1,
    "stages": 2,
    "piece": 0,
    "stores": "cached",
    "next_launch": "late",
}
LAYER = {"B": 4, "C": 96, "H": 28, "W": 28, "K": 7, "layout": "NHWC", "dtype": "float16"}


def workload(**fields: Any) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"C": 8, "H": 1, "W": 1, "K": 3, "bias": True, "activation": "gelu"}, True),
        ({"stride": 3, "dilation": 2, "padding": [0, 1, 9, 4], "residual": True}, True),
        ({"K": None, "KH": 1, "KW": 15}, True),
        ({"K": 13}, True),
        ({"C": 100}, False),
        ({"dtype": "float32"}, False),
        ({"layout": "NCHW"}, False),
        ({"multiplier": 2}, False),
        ({"K": 1}, False),
        ({"K": 31}, False),
    ],
    ids=str,
)
def test_channels_toeplitz_serves_kernels_that_fit_in_registers(
    fields: dict[str, Any], served: bool
) -> None:
    names = {template.name for template in templates.templates_for(workload(**fields), H200)}
    assert ("channels_toeplitz" in names) is served


def test_bfloat16_needs_newer_tensor_cores() -> None:
    layer = workload(dtype="bfloat16")
    template = CudaChannelsToeplitz()
    assert [template.applies(layer, limits) for limits in (T4, H200)] == [False, True]


LAYERS = st.fixed_dictionaries(
    {
        "B": st.integers(1, 33),
        "C": st.integers(1, 40).map(lambda vectors: 8 * vectors),
        "H": st.integers(1, 70),
        "W": st.integers(1, 250),
        "K": st.sampled_from([2, 3, 5, 7, 9, 11]),
        "stride": st.integers(1, 4),
    }
)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(fields=LAYERS, place=st.floats(0, 1, exclude_max=True))
def test_a_grid_covers_all_outputs(fields: dict[str, Any], place: float) -> None:
    layer, template = workload(**fields), CudaChannelsToeplitz()
    if not template.applies(layer, H200):
        return
    space = template.space(layer, H200)
    assert template.default(layer, H200) in space
    config = space[int(place * len(space))]
    layout = Layout(layer, config)
    block = (config["walks"], config["rows"], 8 * config["lines"], config["channels"])
    extents = (layer.B, layer.out_height, layer.out_width, layer.C)
    counts = [-(-extent // size) for extent, size in zip(extents, block, strict=True)]
    assert layout.blocks == counts[0] * counts[1] * counts[2] * counts[3]
    tiles = layout.warps * config["fragments"] * 16 * config["warp_channels"]
    computed = 4 * tiles * (config["rows"] // config["tile_rows"])
    assert computed >= block[0] * block[1] * block[2] * block[3]
    assert config["rows"] % config["tile_rows"] == 0
    assert config["copies"] == "tensor" or layer.C % config["channels"] == 0


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(fields=LAYERS, tile=st.sampled_from([1, 2, 4]))
def test_steps_and_parts_of_a_tile_just_cover_the_inputs_that_it_reaches(
    fields: dict[str, Any], tile: int
) -> None:
    layer = workload(**fields)
    layout = Layout(layer, {"tile_rows": tile, "rows": tile})  # one tile
    last = (tile - 1) * layer.stride + (layer.used_kernel[0] - 1)
    assert (layout.steps - 1) * layout.down <= last < layout.steps * layout.down
    last = (4 // tile - 1) * layer.stride + layer.used_kernel[1] - 1
    assert 4 * (layout.parts - 1) <= last < 4 * layout.parts


@pytest.mark.parametrize(
    ("fields", "knobs"),
    [
        ({"H": 56}, {"channels": 32, "lines": 4, "rows": 28, "stages": 3, "resident": 3}),
        ({"C": 384, "H": 14}, {"channels": 64, "lines": 2, "walks": 2, "rows": 14}),
        ({"C": 768, "H": 7}, {"tile_rows": 4, "channels": 32, "lines": 1, "walks": 2, "rows": 8}),
        (
            {"C": 240, "K": 5},
            {"channels": 40, "warp_channels": 4, "lines": 4, "rows": 14, "resident": 2},
        ),
        ({"C": 1152, "H": 7, "K": 5}, {"channels": 64, "lines": 1, "walks": 4, "rows": 8}),
        ({"K": 11}, {"warp_channels": 4, "channels": 32, "lines": 4, "rows": 14}),
        (
            {"C": 384, "H": 14},
            {"channels": 16, "lines": 2, "walks": 2, "rows": 14, "piece": 1, "resident": 2},
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_channels_toeplitz_keeps_everything_in_registers(
    fields: dict[str, Any], knobs: dict[str, Any], dtype: str
) -> None:
    side = fields.get("H", 28)
    layer = workload(B=32, dtype=dtype, **fields | {"H": side, "W": side})
    template, config = CudaChannelsToeplitz(), THREADS | {"walks": 1} | knobs
    assert config in template.space(layer, H200)
    _, stack = taken(template, layer, config, H200)
    assert stack == 0


@pytest.mark.parametrize(
    ("fields", "knobs"),
    [
        ({"H": 56, "W": 56}, {"channels": 32, "lines": 4, "rows": 28, "stages": 3, "resident": 3}),
        ({"H": 56, "W": 56}, {"channels": 32, "lines": 4, "rows": 28, "stages": 4, "resident": 3}),
        ({"C": 240, "K": 5}, {"channels": 32, "lines": 4, "rows": 14, "walks": 1, "resident": 3}),
        ({"C": 768, "H": 7, "W": 7}, {"walks": 4, "rows": 8, "piece": 2}),
        ({"C": 672, "H": 14, "W": 14, "K": 5}, {"rows": 14, "piece": 1, "resident": 3}),
        ({"H": 56, "W": 56, "bias": True}, {"lines": 4, "rows": 28, "stages": 4, "resident": 3}),
        ({"C": 240, "K": 5, "bias": True, "activation": "relu6"}, {}),
        ({"C": 672, "H": 14, "W": 14, "K": 5, "bias": True}, {"piece": 2, "resident": 3}),
        ({"C": 384, "H": 14, "W": 14, "residual": True}, {"rows": 14, "piece": 4, "resident": 2}),
        (
            {"C": 16, "residual": True, "activation": "silu"},
            {"channels": 16, "stores": "streaming"},
        ),
    ],
    ids=str,
)
def test_channels_toeplitz_with_tensor_copies_stays_in_registers(
    fields: dict[str, Any], knobs: dict[str, Any]
) -> None:
    template, layer = CudaChannelsToeplitz(), workload(B=32, **fields)
    config = template.default(layer, H200) | knobs
    assert config["copies"] == "tensor"
    assert config in template.space(layer, H200)
    _, stack = taken(template, layer, config, H200)
    assert stack == 0


@pytest.mark.parametrize(
    ("C", "threads", "tensor"), [(24, {24}, {16, 32}), (48, {16, 24, 48}, {16, 32, 64})]
)
def test_only_newer_devices_copy_tensors(C: int, threads: set[int], tensor: set[int]) -> None:
    for limits, own in ((T4, set()), (H200, tensor)):
        space = CudaChannelsToeplitz().space(workload(C=C), limits)
        found = {(config["copies"], config["channels"]) for config in space}
        assert found == {("threads", n) for n in threads} | {("tensor", n) for n in own}


SMALL = st.fixed_dictionaries(
    {
        "B": st.integers(1, 3),
        "C": st.sampled_from([16, 24, 40]),
        "H": st.integers(1, 17),
        "W": st.integers(1, 21),
        "K": st.none(),
        "KH": st.integers(1, 5),
        "KW": st.integers(1, 7),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 2),
        "bias": st.booleans(),
        "residual": st.booleans(),
        "dtype": st.sampled_from(["float16", "bfloat16"]),
    }
)

LOW = {"B": 2, "C": 24, "H": 6, "W": 9, "K": None, "KW": 3, "stride": 1, "dilation": 1} | {
    "bias": True,
    "residual": True,
    "dtype": "float16",
}
"""A layer whose first tiles may reach no input."""


@settings(max_examples=36, derandomize=True, deadline=None, database=None)
@given(
    fields=SMALL,
    before=st.tuples(*[st.integers(0, 4)] * 2),
    after=st.integers(0, 9),
    copies=st.sampled_from(sorted(COPIES)),
    held=st.booleans(),
    place=st.floats(0, 0.999),
    apart=st.sampled_from([0, 0, 0, 0, 1]),
)
@example(
    fields=LOW | {"KH": 1}, before=(4, 0), after=2, copies="tensor", held=True, place=0.5, apart=0
)
@example(
    fields=LOW | {"KH": 5}, before=(0, 2), after=9, copies="tensor", held=True, place=0.9, apart=0
)
@example(
    fields=LOW | {"KH": 1}, before=(4, 0), after=2, copies="threads", held=True, place=0.2, apart=0
)
def test_any_configuration_is_right(
    fields: dict[str, Any],
    before: tuple[int, int],
    after: int,
    copies: str,
    held: bool,
    place: float,
    apart: int,
) -> None:
    top, left = before
    window = (fields["KH"] - 1) * fields["dilation"] + 1
    padding = [top, left, max(after, window - fields["H"] - top), 2 * fields["KW"]]
    layer, template = workload(**fields, padding=padding), CudaChannelsToeplitz()
    assume(template.applies(layer, H200))
    space = template.space(layer, H200)
    configs = [c for c in space if (c["copies"], c["piece"] > 0) == (copies, held)]
    assume(configs)
    config = configs[int(place * len(configs))]
    sources = program.SOURCE, *COPIES[copies]
    text = render(program.numbers(layer, config), WAIT, PRODUCTS, *sources)
    text = f"constexpr bool HAS_BIAS = {int(layer.bias)};\n{text}"
    launch = program.launch(layer, config)
    assert emulated.error(layer, text, [launch], apart=apart) <= layer.max_error


def test_channels_toeplitz_compiles_for_the_oldest_tensor_cores() -> None:
    template, layer = CudaChannelsToeplitz(), workload(residual=True, activation="silu")
    assert taken(template, layer, template.default(layer, T4), T4)[1] == 0
    layer = workload(B=32, H=14, W=14)
    held = THREADS | {"channels": 16, "lines": 2, "walks": 2, "rows": 14, "piece": 1}
    assert held in template.space(layer, T4)
    assert taken(template, layer, held, T4)[1] == 0
