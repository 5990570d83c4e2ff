"""The tensor-core template for channels last and long kernels: the workloads that it serves, the
outputs that its grid covers, its results, emulated on a CPU, and its registers."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import templates
from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda.channels_planes import CudaChannelsPlanes, Layout
from templates.depthwise_conv2d.cuda.schedules import channels_planes as program
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import Launch, render
from tests.templates import emulated
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4

PRODUCTS = Path(__file__).with_name("emulated_products.h")
LAYER = {"B": 4, "C": 96, "H": 28, "W": 28, "K": 27, "layout": "NHWC", "dtype": "float16"}


def workload(**fields: Any) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"K": 63, "H": 200, "W": 200}, True),
        ({"C": 8, "H": 1, "W": 1, "bias": True, "residual": True, "activation": "gelu"}, True),
        ({"K": None, "KH": 51, "KW": 5, "padding": [3, 0, 60, 9]}, True),
        ({"direction": "backward_input"}, True),
        ({"K": 7}, False),
        ({"stride": 2}, False),
        ({"dilation": 2}, False),
        ({"C": 100}, False),
        ({"dtype": "float32"}, False),
        ({"layout": "NCHW"}, False),
        ({"multiplier": 2}, False),
    ],
    ids=str,
)
def test_channels_planes_serves_long_16_bit_kernels_with_channels_last(
    fields: dict[str, Any], served: bool
) -> None:
    names = {template.name for template in templates.templates_for(workload(**fields), H200)}
    assert ("channels_planes" in names) is served


def test_bfloat16_needs_newer_tensor_cores() -> None:
    layer, template = workload(dtype="bfloat16"), CudaChannelsPlanes()
    assert [template.applies(layer, limits) for limits in (T4, H200)] == [False, True]


LAYERS = st.fixed_dictionaries(
    {
        "B": st.integers(1, 33),
        "C": st.integers(1, 40).map(lambda vectors: 8 * vectors),
        "H": st.integers(1, 70),
        "W": st.integers(1, 250),
        "K": st.sampled_from([9, 11, 13, 27, 31, 63]),
    }
)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(fields=LAYERS, place=st.floats(0, 1, exclude_max=True))
def test_a_grid_covers_all_outputs(fields: dict[str, Any], place: float) -> None:
    layer, template = workload(**fields), CudaChannelsPlanes()
    space = template.space(layer, H200)
    assert template.default(layer, H200) in space
    config = space[int(place * len(space))]
    layout = Layout(layer, config)
    rows = config["fragment_rows"] * config["groups"] * config["row_warps"]
    images = 16 // config["fragment_rows"] * config["walks"]
    extents = ((layer.B, images), (layer.out_height, rows))
    counts = [ceil_div(extent, size) for extent, size in extents]
    across = ceil_div(layer.out_width, 8 * config["column_tiles"])
    assert layout.blocks == counts[0] * counts[1] * across * layer.C // 8


DTYPES = st.sampled_from(["float16", "bfloat16"])
SMALL = st.fixed_dictionaries(
    {
        "B": st.integers(1, 3),
        "C": st.sampled_from([8, 24]),
        "H": st.integers(1, 23),
        "W": st.integers(1, 23),
        "K": st.none(),
        "KH": st.integers(1, 19),
        "KW": st.integers(1, 27),
        "bias": st.booleans(),
        "residual": st.booleans(),
    }
)


@settings(max_examples=10, derandomize=True, deadline=None, database=None)
@given(
    fields=SMALL,
    before=st.tuples(*[st.integers(0, 9)] * 2),
    dtype=DTYPES,
    place=st.floats(0, 0.999),
)
def test_any_configuration_is_right(
    fields: dict[str, Any], before: tuple[int, int], dtype: str, place: float
) -> None:
    top, left = before
    padding = [top, left, fields["KH"] - 1, fields["KW"] - 1]  # enough for any plane
    layer, template = workload(dtype=dtype, **fields, padding=padding), CudaChannelsPlanes()
    assume(template.applies(layer, H200))
    space = template.space(layer, H200)
    config = space[int(place * len(space))]
    layout = Layout(layer, config)
    launch = Launch(
        "depthwise_channels_planes", layout.blocks, layout.threads, layout.shared_bytes // 4
    )
    text = PRODUCTS.read_text() + render(program.numbers(layer, config), program.SOURCE)
    assert emulated.error(layer, text, [launch]) <= layer.max_error


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(fields=LAYERS)
def test_tile_multiplies_no_more_columns_than_its_taps_reach(fields: dict[str, Any]) -> None:
    """The blocks of 8 input columns that a tile multiplies are as few as cover its 8 outputs and
    their taps."""
    layer = workload(**fields)
    layout = Layout(layer, CudaChannelsPlanes().default(layer, H200))
    reached = 8 + layer.used_taps[1].count - 1
    assert 8 * (layout.distances - 1) < reached <= 8 * layout.distances


@pytest.mark.parametrize(
    ("fields", "knobs"),
    [
        ({"H": 56, "W": 56, "K": 31}, {"groups": 2, "row_warps": 2}),
        ({"H": 14, "W": 14}, {"fragment_rows": 8, "groups": 2, "walks": 4}),
        ({"H": 33, "W": 59, "K": None, "KH": 51, "KW": 5}, {"groups": 1, "column_tiles": 4}),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_channels_planes_keeps_everything_in_registers(
    fields: dict[str, Any], knobs: dict[str, Any], dtype: str
) -> None:
    template, layer = CudaChannelsPlanes(), workload(B=32, dtype=dtype, bias=True, **fields)
    config = template.default(layer, H200) | knobs
    assert config in template.space(layer, H200)
    _, stack = taken(template, layer, config, H200)
    assert stack == 0


def test_channels_planes_compiles_for_the_oldest_tensor_cores() -> None:
    ends = {"bias": True, "residual": True, "activation": "silu"}
    template, layer = CudaChannelsPlanes(), workload(**ends)
    assert taken(template, layer, template.default(layer, T4), T4)[1] == 0
