"""The tensor-core template for channels last: the workloads that it serves, the outputs and inputs
that its tiles cover, and its registers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.depthwise_conv2d.cuda.channels_toeplitz import CudaChannelsToeplitz, Layout
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4

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
def test_it_serves_what_fits_in_registers(fields: dict[str, Any], served: bool) -> None:
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
    assert config["rows"] % config["tile_rows"] == layer.C % config["channels"] == 0


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(fields=LAYERS, tile=st.sampled_from([1, 2, 4]))
def test_the_input_rows_of_a_tile_come_in_its_steps(fields: dict[str, Any], tile: int) -> None:
    layer = workload(**fields)
    layout = Layout(layer, {"tile_rows": tile, "rows": tile})  # one tile
    last = (tile - 1) * layer.stride + (layer.used_kernel[0] - 1)
    assert (layout.steps - 1) * layout.down <= last < layout.steps * layout.down
    last = (4 // tile - 1) * layer.stride + layer.used_kernel[1] - 1
    assert 4 * (layout.parts - 1) <= last < 4 * layout.parts


@pytest.mark.parametrize(
    ("fields", "knobs"),
    [
        ({"H": 56, "W": 56}, {"channels": 32, "lines": 4, "rows": 28, "stages": 3, "resident": 3}),
        ({"C": 384, "H": 14, "W": 14}, {"channels": 64, "lines": 2, "walks": 2, "rows": 14}),
        ({"C": 768, "H": 7, "W": 7}, {"tile_rows": 4, "channels": 32, "walks": 2, "rows": 8}),
        ({"C": 240, "K": 5}, {"channels": 40, "warp_channels": 4, "walks": 1, "resident": 2}),
        ({"C": 1152, "H": 7, "W": 7, "K": 5}, {"channels": 64, "walks": 4, "rows": 8}),
        ({"K": 11}, {"warp_channels": 4}),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_everything_stays_in_registers(
    fields: dict[str, Any], knobs: dict[str, Any], dtype: str
) -> None:
    template, layer = CudaChannelsToeplitz(), workload(B=32, dtype=dtype, **fields)
    config = template.default(layer, H200) | knobs
    assert config in template.space(layer, H200)
    _, stack = taken(template, layer, config, H200)
    assert stack == 0


def test_it_compiles_for_the_oldest_tensor_cores() -> None:
    template, layer = CudaChannelsToeplitz(), workload(residual=True, activation="silu")
    assert taken(template, layer, template.default(layer, T4), T4)[1] == 0
