"""Banks of filters on tensor cores: what the forms serve, and which filters and positions a warp
has."""

from math import gcd
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates.conv1d.cuda.bank import CudaBank
from templates.conv1d.cuda.implicit import (
    CudaImplicit,
    filter_blocks,
    filters,
    is_filled,
    positions,
    slack,
)
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4

LAYER = {"F": 512, "M": 16000, "N": 10, "stride": 5, "mode": "valid", "dtype": "float16"}


def workload(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"B": 3, "F": 16, "N": 64, "dilation": 3, "residual": True, "activation": "silu"}, True),
        ({"dtype": "float32"}, False),
        ({"N": 65}, False),
        ({"F": 15}, False),
        ({"C": 2, "groups": 1}, False),
        ({"layout": "NWC"}, False),
    ],
    ids=str,
)
def test_it_serves_few_taps_of_many_filters(fields: dict[str, Any], served: bool) -> None:
    assert CudaBank().applies(workload(**fields), H200) is served


@pytest.mark.parametrize("template", [CudaBank(), CudaImplicit()], ids=lambda each: each.name)
def test_bfloat16_needs_newer_tensor_cores(template: CudaBank | CudaImplicit) -> None:
    layer = workload(dtype="bfloat16")
    assert [template.applies(layer, limits) for limits in (T4, H200)] == [False, True]


@pytest.mark.parametrize("limits", [T4, H200], ids=["T4", "H200"])
def test_float32_of_few_taps_is_served_in_scaled_halves(limits: DeviceLimits) -> None:
    template, layer = CudaImplicit(), workload(dtype="float32")
    assert template.applies(layer, limits)
    assert {each["arithmetic"] for each in template.space(layer, limits)} == {"fp16x3"}


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(
    F=st.integers(1, 300),
    M=st.integers(1, 300),
    neighbours=st.sampled_from([2, 4, 8]),
    filter_warps=st.integers(1, 4),
    filter_tiles=st.integers(1, 4),
)
def test_every_filter_and_position_is_summed(
    F: int, M: int, neighbours: int, filter_warps: int, filter_tiles: int
) -> None:
    layer = workload(F=F, M=M, N=1, stride=1)
    config = {
        "neighbours": neighbours,
        "filter_warps": filter_warps,
        "filter_tiles": filter_tiles,
        "position_warps": 1,
        "position_tiles": 4,
    }
    # as implicit_outputs.cu has it
    length, own = layer.length, 16 * filter_tiles
    spacing = neighbours // gcd(length, neighbours)
    warps = filter_blocks(layer, config) * filter_warps
    summed = [
        warp % spacing + spacing * (warp // spacing * own + i)
        for warp in range(warps)
        for i in range(own)
    ]
    assert len(set(summed)) == len(summed) == filter_blocks(layer, config) * filters(config)
    assert set(range(F)) <= set(summed)
    starts = {(f * length) % neighbours for f in summed[:own]}
    assert len(starts) == 1  # all filters of a warp begin alike
    assert slack(layer, config) >= neighbours - gcd(length, neighbours)
    assert positions(config) == 32


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(data=st.data())
def test_blocks_can_run(data: st.DataObject) -> None:
    layer = workload(
        F=data.draw(st.integers(16, 300)),
        M=data.draw(st.integers(64, 5000)),
        N=data.draw(st.integers(1, 64)),
        stride=data.draw(st.integers(1, 9)),
        kind=data.draw(st.sampled_from(["convolve", "correlate"])),
    )
    for template in (CudaBank(), CudaImplicit()):
        for limits in (T4, H200):
            space = template.space(layer, limits)
            assert template.default(layer, limits) in space
            config = space[data.draw(st.integers(0, len(space) - 1))]
            assert is_filled(layer, config)


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
def test_no_register_is_spilled(limits: Any) -> None:
    template, layer = CudaBank(), workload()
    config = template.default(layer, limits) | {
        "filter_warps": 2,
        "filter_tiles": 2,
        "position_warps": 4,
        "position_tiles": 8,
        "neighbours": 8,
        "resident": 2,
    }
    assert config in template.space(layer, limits)
    registers, stack = taken(template, layer, config, limits)
    assert (registers <= 128, stack) == (True, 0)


@pytest.mark.parametrize(
    ("fields", "streams"),
    [
        ({}, True),
        ({"layout": "NWC", "kind": "convolve", "dilation": 4}, True),
        ({"stride": 160, "N": 401}, True),
        ({"stride": 3}, False),  # a step's second row may lie before its first
        ({"N": 16}, False),
        ({"dtype": "float16", "max_error": 1e-3}, False),
        ({"C": 2, "groups": 1}, False),
    ],
    ids=str,
)
def test_weights_stream_to_warpgroups(fields: dict[str, Any], streams: bool) -> None:
    bank = {"dtype": "float32", "N": 400, "F": 257, "stride": 1, "max_error": 1e-2}
    layer = workload(**bank | fields)
    found = [each for each in CudaImplicit().space(layer, H200) if each.get("streamed")]
    assert bool(found) is streams
    for config in found:
        whole = (config["taps"], config["tiles"], config["stages"], config["position_warps"])
        assert whole == (layer.N, 1, 1, 1), config


def test_streamed_weights_of_all_filters_leave_room_for_sums() -> None:
    """A block of 320 filters and 128 positions, of which an H200 has one for each unit."""
    template = CudaImplicit()
    layer = workload(dtype="float32", B=16, F=257, M=160_000, N=400, stride=160)
    config = template.default(layer, H200) | {
        "streamed": 32,
        "stream_stages": 2,
        "filter_warps": 20,
        "filter_tiles": 1,
        "position_warps": 1,
        "position_tiles": 16,
        "taps": 400,
    }
    assert config in template.space(layer, H200)
    registers, stack = taken(template, layer, config, H200)
    assert registers <= 96
    assert stack <= 16
