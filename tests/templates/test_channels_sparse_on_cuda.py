"""The template for channels last on sparse tensor cores: the workloads that it serves, the outputs
and inputs that its blocks cover, and its registers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import templates
from templates.depthwise_conv2d.cuda.channels_sparse import CudaChannelsSparse, Layout
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.templates.cuda_source import cubin, registers_and_stack, source
from tests.templates.devices import H200, T4

LAYER = {"B": 4, "C": 96, "H": 28, "W": 28, "K": 5, "layout": "NHWC", "dtype": "float16"}


def workload(**fields: Any) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"dtype": "bfloat16", "bias": True, "activation": "gelu"}, True),
        ({"C": 8, "H": 1, "K": None, "KH": 1, "KW": 5}, False),
        ({"C": 8, "H": 9, "W": 99, "padding": [0, 1, 2, 4], "B": 1}, True),
        ({"K": None, "KH": 6, "KW": 4}, True),
        ({"K": 3}, False),
        ({"K": 7}, False),
        ({"H": 14, "W": 14}, False),
        ({"C": 100}, False),
        ({"stride": 2}, False),
        ({"dilation": 2}, False),
        ({"multiplier": 2}, False),
        ({"residual": True}, False),
        ({"layout": "NCHW"}, False),
        ({"dtype": "float32"}, False),
    ],
    ids=str,
)
def test_it_serves_what_it_is_fast_for(fields: dict[str, Any], served: bool) -> None:
    names = {template.name for template in templates.templates_for(workload(**fields), H200)}
    assert ("channels_sparse" in names) is served


def test_it_needs_sparse_tensor_cores() -> None:
    assert not CudaChannelsSparse().applies(workload(), T4)


LAYERS = st.fixed_dictionaries(
    {
        "B": st.integers(1, 33),
        "C": st.integers(1, 40).map(lambda vectors: 8 * vectors),
        "H": st.integers(1, 70),
        "W": st.integers(22, 120),
        "KH": st.integers(4, 6),
        "KW": st.integers(4, 6),
    }
)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(fields=LAYERS, place=st.floats(0, 1, exclude_max=True))
def test_a_grid_covers_all_outputs(fields: dict[str, Any], place: float) -> None:
    layer, template = workload(K=None, **fields), CudaChannelsSparse()
    if not template.applies(layer, H200):  # with few rows, some taps meet nothing but padding
        return
    space = template.space(layer, H200)
    assert template.default(layer, H200) in space
    config = space[int(place * len(space))]
    layout = Layout(layer, config)
    extents = (layer.B, layer.out_height, layer.C)
    block = (config["walks"], config["rows"], config["channels"])
    counts = [-(-extent // size) for extent, size in zip(extents, block, strict=True)]
    assert layout.blocks == counts[0] * counts[1] * counts[2]
    tile = config["tile_rows"]
    columns = 8 * layout.groups * (8 // tile) / config["walks"]
    assert layer.out_width <= columns
    assert config["rows"] <= layout.parts * config["stack"] * tile
    assert layer.C % config["channels"] == config["rows"] % tile == 0
    assert layout.threads * config["each"] == 16 * config["channels"]


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(fields=LAYERS, place=st.floats(0, 1, exclude_max=True))
def test_all_that_a_block_reads_has_a_place(fields: dict[str, Any], place: float) -> None:
    """The planes in shared memory hold every input that a block reads, are aligned for its vectors,
    and fit the device as often as blocks are to be resident."""
    layer, template = workload(K=None, **fields), CudaChannelsSparse()
    if not template.applies(layer, H200):
        return
    space = template.space(layer, H200)
    config = space[int(place * len(space))]
    layout, tile = Layout(layer, config), config["tile_rows"]
    down, across = layer.used_taps
    last_tile = (-(-layer.out_width // (8 // tile)) - 1) * (8 // tile)
    assert layout.pitch >= last_tile + 8 // tile + across.count - 1
    assert layout.deep >= layout.parts * config["stack"] * tile + down.count - 1
    assert layout.walk >= layout.deep * layout.pitch
    assert layout.plane >= config["walks"] * layout.walk
    # vectors of two words are read to registers; vectors of four are set to zero
    assert layout.pitch % 2 == layout.walk % 2 == layout.plane % 2 == 0
    taps = down.count * across.count
    assert layout.shared_bytes >= 2 * config["channels"] * (layout.plane + taps)
    assert 2 * config["channels"] * layout.plane % 16 == layout.shared_bytes % 16 == 0
    assert layout.shared_bytes * config["resident"] <= H200.shared_memory


@pytest.mark.parametrize(
    ("fields", "knobs"),
    [
        ({"C": 240}, {"channels": 16, "stack": 7, "rows": 28, "resident": 4}),
        ({"C": 240}, {"channels": 16, "stack": 7, "rows": 28, "each": 2, "resident": 5}),
        ({"C": 240}, {"channels": 48, "stack": 7, "rows": 14, "each": 2, "resident": 2}),
        ({"H": 56, "W": 56}, {"channels": 32, "stack": 4, "rows": 8, "each": 2}),
        ({"K": None, "KH": 4, "KW": 6}, {"tile_rows": 4, "channels": 16, "stack": 4, "rows": 16}),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_everything_stays_in_registers(
    fields: dict[str, Any], knobs: dict[str, Any], dtype: str
) -> None:
    template, layer = CudaChannelsSparse(), workload(**{"B": 32, "dtype": dtype} | fields)
    config = template.default(layer, H200) | {"walks": 1} | knobs
    assert config in template.space(layer, H200)
    text = source(template, layer, config, H200)
    assert "mma.sp" in text
    _, stack = registers_and_stack(cubin(text, "sm_90"))
    assert stack == 0
