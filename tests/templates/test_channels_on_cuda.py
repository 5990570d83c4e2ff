"""The channels-last form on CUDA: what it serves, in what it sums, and what it needs."""

from typing import Any

import pytest

import templates
from templates.depthwise_conv2d.cuda.channels import CudaChannels
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.templates.cuda_source import cubin, registers_and_stack, source
from tests.templates.devices import H200, T4

LAYER = {"B": 2, "C": 24, "H": 28, "W": 28, "K": 7, "layout": "NHWC"}


def workload(**fields: Any) -> DepthwiseConv2dWorkload:
    return DepthwiseConv2dWorkload.model_validate(LAYER | fields)


@pytest.mark.parametrize(
    ("fields", "serving"),
    [
        ({}, ["channels"]),
        ({"stride": 3, "dilation": 2, "padding": [0, 1, 9, 4]}, ["channels"]),
        ({"multiplier": 2}, ["direct", "tiled"]),
        ({"layout": "NCHW", "stride": 3}, ["direct", "tiled"]),
    ],
    ids=str,
)
def test_it_alone_serves_what_it_knows(fields: dict[str, Any], serving: list[str]) -> None:
    found = templates.templates_for(workload(**fields), H200)
    assert sorted(template.name for template in found) == serving


@pytest.mark.parametrize(
    ("fields", "sums"),
    [
        ({"dtype": "float16"}, ["float32", "packed"]),
        ({"dtype": "float16", "max_error": 5e-4}, ["float32"]),
        ({"dtype": "float16", "K": 3}, ["float32"]),
        ({"dtype": "bfloat16"}, ["float32"]),
        ({"max_error": 1e-2}, ["float32"]),
    ],
    ids=str,
)
def test_it_sums_in_float16_only_what_allows_it(fields: dict[str, Any], sums: list[str]) -> None:
    knobs = {knob.name: knob for knob in CudaChannels().space(workload(**fields), H200).knobs}
    assert list(knobs["sums"].values) == sums


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
def test_packed_sums_stay_in_registers(limits: Any) -> None:
    template, work = CudaChannels(), workload(dtype="float16")
    config = template.default(work, limits) | {"sums": "packed", "rows": 7, "columns": 2}
    assert config in template.space(work, limits)
    text = source(template, work, config, limits)
    assert "fma.rn.f16x2" in text
    registers, stack = registers_and_stack(cubin(text, limits.arch))
    assert (registers <= 255, stack) == (True, 0)


def test_a_kernel_of_many_taps_lies_in_shared_memory() -> None:
    template = CudaChannels()
    for K, places in ((3, ["registers"]), (7, ["registers", "shared"]), (31, ["shared"])):
        knobs = {knob.name: knob for knob in template.space(workload(K=K), H200).knobs}
        assert list(knobs["weights"].values) == places
