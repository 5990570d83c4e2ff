"""The template for dense channels by whole warpgroups: the workloads that it serves, and that its
blocks can run."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates.conv1d.cuda.implicit_warpgroup import (
    CudaImplicitWarpgroup,
    chunks,
    neighbours,
    registers,
    row_pairs_prefetched,
    shared_words,
    threads,
)
from templates.conv1d.workload import Conv1dWorkload
from tests.templates.cuda_source import taken
from tests.templates.devices import H200, T4

LAYER = {"C": 64, "M": 4800, "N": 3, "groups": 1, "mode": "same", "dtype": "float16"}
TEMPLATE = CudaImplicitWarpgroup()


def workload(**fields: Any) -> Conv1dWorkload:
    return Conv1dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "served"),
    [
        ({}, True),
        ({"F": 17, "stride": 3, "dilation": 2, "layout": "NWC", "dtype": "bfloat16"}, True),
        ({"C": 8, "F": 16, "N": 31, "bias": True, "residual": True}, True),
        ({"dtype": "float32"}, False),
        ({"groups": 64}, False),
        ({"C": 7}, False),
        ({"F": 15}, False),
        ({"N": 32}, False),
    ],
    ids=str,
)
def test_implicit_warpgroup_serves_enough_dense_channels_of_16_bits(
    fields: dict[str, Any], served: bool
) -> None:
    assert TEMPLATE.applies(workload(**fields), H200) is served


def test_implicit_warpgroup_needs_compute_capability_9_0() -> None:
    assert not TEMPLATE.applies(workload(), T4)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_blocks_fit_into_registers_and_shared_memory(data: st.DataObject) -> None:
    layer = workload(
        C=data.draw(st.integers(8, 200)),
        F=data.draw(st.integers(16, 200)),
        M=data.draw(st.integers(32, 5000)),
        N=data.draw(st.integers(1, 31)),
        stride=data.draw(st.integers(1, 5)),
        dilation=data.draw(st.integers(1, 40)),
        layout=data.draw(st.sampled_from(["NCW", "NWC"])),
    )
    space = TEMPLATE.space(layer, H200)
    assert TEMPLATE.default(layer, H200) in space
    config = space[data.draw(st.integers(0, len(space) - 1))]
    shares, stagers = registers(layer, config), config["staging_groups"]
    groups = threads(config) // 128 - stagers
    given_out = shares.staging * stagers + shares.multiplying * groups
    assert given_out <= shares.launched * (groups + stagers)
    assert 128 * (groups + stagers) * shares.launched * config["resident"] <= 2**16
    assert all(each % 8 == 0 for each in (shares.launched, shares.staging, shares.multiplying))
    assert row_pairs_prefetched(layer, config) >= 1
    assert 4 * shared_words(layer, config) * config["resident"] <= H200.shared_memory
    if chunks(layer, config) == 1:
        # with more groups than stages, a group would read a stage before it is filled
        assert config["position_groups"] <= config["stages"]


@pytest.mark.parametrize(
    ("fields", "pairs"),
    [
        ({"F": 32}, True),
        ({"F": 96}, True),
        ({"F": 33}, False),
        ({"F": 32, "N": 1}, False),
        ({"F": 32, "stride": 2}, False),
        ({"F": 32, "dilation": 2}, False),
        ({"F": 32, "layout": "NWC"}, False),
    ],
    ids=str,
)
def test_pairs_of_positions_fill_the_rows_that_few_filters_leave_empty(
    fields: dict[str, Any], pairs: bool
) -> None:
    """If filters fill at most half of an instruction's 64 rows, two neighbouring positions share
    it, at stride and dilation 1 and channels first."""
    layer = workload(**fields)
    assert neighbours(layer) == (2 if pairs else 1)
    # a group takes 64 filters, or 32 if positions are paired: no block has half of its rows empty
    assert all(
        each["filter_groups"] * (32 if pairs else 64) < 2 * layer.out_channels
        for each in TEMPLATE.space(layer, H200)
        if each["filter_groups"] > 1
    )


def test_implicit_warpgroup_spills_no_registers() -> None:
    layer = workload(C=192, N=7, dilation=9)
    config = {
        "template": "implicit_warpgroup",
        "filter_groups": 1,
        "position_groups": 2,
        "columns": 128,
        "channels": 16,
        "tiles": 2,
        "stages": 4,
        "staging_groups": 1,
        "resident": 1,
    }
    assert config in TEMPLATE.space(layer, H200)
    used, stack = taken(TEMPLATE, layer, config, H200)
    assert stack == 0
    assert used <= registers(layer, config).launched
