"""Templates for banks of filters on tensor cores: the workloads that they serve, the filters and
positions of each warp, and their registers."""

from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates.conv1d.cuda.bank import CudaBank
from templates.conv1d.cuda.implicit import CudaImplicit
from templates.conv1d.cuda.implicit_layout import (
    blocks,
    filter_blocks,
    filters,
    filters_of_lanes,
    is_filled,
    positions,
    slack,
    threads,
)
from templates.conv1d.cuda.schedules import implicit
from templates.conv1d.reference import reference
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, render
from templates.limits import DeviceLimits
from tests.templates import emulated
from tests.templates.cuda_source import cubin, is_serialised, registers_and_stack, source, taken
from tests.templates.devices import H200, T4
from tuner.measure.check import relative_error

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
def test_bank_serves_many_filters_of_few_taps(fields: dict[str, Any], served: bool) -> None:
    assert CudaBank().applies(workload(**fields), H200) is served


@pytest.mark.parametrize("template", [CudaBank(), CudaImplicit()], ids=lambda each: each.name)
def test_bfloat16_needs_newer_tensor_cores(template: CudaBank | CudaImplicit) -> None:
    layer = workload(dtype="bfloat16")
    assert [template.applies(layer, limits) for limits in (T4, H200)] == [False, True]


@pytest.mark.parametrize("limits", [T4, H200], ids=["T4", "H200"])
def test_implicit_serves_float32_of_few_taps_in_scaled_halves(limits: DeviceLimits) -> None:
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
    """Each filter is summed once, by warps whose filters all begin at the same offset from a
    boundary of ``neighbours`` outputs."""
    layer = workload(F=F, M=M, N=1, stride=1)
    config = {
        "neighbours": neighbours,
        "filter_warps": filter_warps,
        "filter_tiles": filter_tiles,
        "position_warps": 1,
        "position_tiles": 4,
    }
    # the same numbering of filters as in implicit_outputs.cu
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
    assert len(starts) == 1  # all rows of a warp's filters have the same offset from a boundary
    assert slack(layer, config) >= neighbours - gcd(length, neighbours)
    assert positions(config) == 32


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(data=st.data())
def test_blocks_of_any_configuration_are_well_filled(data: st.DataObject) -> None:
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
def test_bank_spills_no_registers(limits: Any) -> None:
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
        ({"stride": 3}, False),  # the distance from a step's first row to its second is negative
        ({"N": 16}, False),
        ({"N": 1024, "max_error": 1e-5}, True),
        ({"N": 1200, "max_error": 1e-5}, False),  # tensor cores, which truncate, would sum too much
        ({"dtype": "float16", "max_error": 1e-3}, False),
        ({"C": 2, "groups": 1}, False),
    ],
    ids=str,
)
def test_streamed_weights_need_float32_one_channel_and_a_long_kernel(
    fields: dict[str, Any], streams: bool
) -> None:
    """The space has streamed weights only for float32, one channel and long kernels, and then with
    all taps of one tile."""
    bank = {"dtype": "float32", "N": 400, "F": 257, "stride": 1, "max_error": 1e-2}
    layer = workload(**bank | fields)
    found = [each for each in CudaImplicit().space(layer, H200) if each.get("streamed")]
    assert bool(found) is streams
    for config in found:
        whole = (config["taps"], config["tiles"], config["stages"], config["position_warps"])
        assert whole == (layer.N, 1, 1, 1), config


def test_streamed_weights_of_all_filters_leave_registers_for_sums() -> None:
    """A block sums 320 filters and 128 positions; each of an H200's units has one such block."""
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


STREAMED = {
    "streamed": 32,
    "stream_stages": 2,
    "filter_warps": 16,
    "filter_tiles": 1,
    "position_warps": 1,
    "position_tiles": 16,
    "neighbours": 2,
}


def streamed(layer: Conv1dWorkload, **knobs: Any) -> dict[str, Any]:
    """Return a configuration of the space with streamed weights."""
    config = CudaImplicit().default(layer, H200) | STREAMED | {"taps": layer.N} | knobs
    assert config in CudaImplicit().space(layer, H200)
    return config


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(F=st.integers(1, 700), groups=st.integers(1, 5))
def test_lanes_sum_a_few_filters_beyond_those_of_warpgroups(F: int, groups: int) -> None:
    """If 1 to 4 filters are left over by the warpgroups, the lanes sum these one by one; otherwise
    one more block of filters does."""
    layer = workload(dtype="float32", F=F, N=100, stride=16)
    config = CudaImplicit().default(layer, H200) | STREAMED | {"filter_warps": 4 * groups}
    render, few = filter_blocks(layer, config) * 64 * groups, filters_of_lanes(layer, config)
    assert 0 <= few <= 4
    if few > 0:
        assert render + few == F
    else:
        assert render - 64 * groups < F <= render
    assert filters_of_lanes(layer, config | {"streamed": 0}) == 0


@pytest.mark.parametrize(
    ("fields", "knobs"),
    [
        ({"F": 65}, {"filter_warps": 4}),
        ({"F": 66, "kind": "convolve", "mode": "full"}, {"filter_warps": 4, "position_tiles": 4}),
        ({"F": 68, "bias": True, "residual": True, "layout": "NWC"}, {"filter_warps": 4}),
        ({"F": 131, "dilation": 4, "stride": 1}, {"filter_warps": 4, "position_tiles": 5}),
        ({"F": 257, "M": 300, "mode": "same"}, {"position_tiles": 4}),
    ],
    ids=str,
)
def test_lanes_write_the_right_outputs_of_leftover_filters_only(
    fields: dict[str, Any], knobs: dict[str, Any]
) -> None:
    """The function of the lanes is emulated alone: it writes the right outputs of the filters left
    over, and no others."""
    few = {"B": 2, "M": 1500, "N": 50, "stride": 8, "kind": "correlate", "dtype": "float32"}
    layer = workload(**few | fields)
    config = streamed(layer, **knobs)
    added = "".join(f"const void* {name}, " for name in ("bias", "residual") if layer.bias)
    own = render(
        implicit.substitutions(layer, config), implicit.SIGNAL, implicit.OUTPUTS, implicit.REST
    )
    text = f"""constexpr bool HAS_BIAS = {int(layer.bias)};
{own}
void rest_alone(const void* x, const void* w, {added}void* y) {{
  const char *const b = (const char*){"bias" if layer.bias else "nullptr"};
  const char *const r = (const char*){"residual" if layer.bias else "nullptr"};
  const int patch = blockIdx.x / FILTER_BLOCKS, patches = (L + TILE - 1) / TILE;
  rest_add(x, w, {{(char*)y, b, r, patch / patches, F - REST, patch % patches * TILE}},
           blockIdx.x % FILTER_BLOCKS * WARPS_F);
}}
"""
    rng = np.random.default_rng(0)
    tensors = [rng.standard_normal(each.shape).astype("f4") for each in layer.inputs]
    launch = Launch("rest_alone", blocks(layer, config), threads(config), 0)
    output = emulated.run(layer, text, [launch], tensors, 0)
    exact, axis = reference(layer, *tensors), 1 if layer.layout == "NCW" else 2
    beyond = range(layer.out_channels - filters_of_lanes(layer, config), layer.out_channels)
    assert len(beyond) > 0
    found, expected = (np.take(each, beyond, axis) for each in (output, exact))
    assert relative_error(found, expected) < 1e-6
    assert np.isnan(output).sum() == output.size - found.size


@pytest.mark.parametrize(
    ("F", "groups", "tiles"),
    [(65, 1, 32), (129, 2, 24), (257, 4, 16), (260, 4, 16), (514, 4, 16)],
)
def test_instructions_of_warpgroups_are_not_serialised(F: int, groups: int, tiles: int) -> None:
    """The lanes sum the filters that don't fill a group. With one more group instead, ptxas would
    lack registers and serialise."""
    layer = workload(dtype="float32", B=16, F=F, M=160_000, N=400, stride=160, bias=True)
    config = streamed(layer, filter_warps=4 * groups, position_tiles=tiles)
    assert filters_of_lanes(layer, config) > 0
    text = source(CudaImplicit(), layer, config, H200)
    assert not is_serialised(text, H200.arch)
    registers, stack = registers_and_stack(cubin(text, H200.arch))
    assert (registers <= 2**16 // threads(config), stack) == (True, 0)


def test_ptxas_reports_serialised_warpgroup_instructions() -> None:
    layer = workload(dtype="float32", B=16, F=257, M=160_000, N=400, stride=160)
    config = streamed(layer, filter_warps=20)
    assert is_serialised(source(CudaImplicit(), layer, config, H200), H200.arch)
