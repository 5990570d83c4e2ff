"""The CUDA template for channels last: the workloads that it serves, and where it keeps weights."""

from typing import Any

import pytest

import templates
from templates.depthwise_conv2d.cuda.channels import CudaChannels
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from tests.templates.devices import H200

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
    """Float32 workloads with channels last and no multiplier have this template only; the others
    have other templates."""
    found = templates.templates_for(workload(**fields), H200)
    assert sorted(template.name for template in found) == serving


def test_a_kernel_of_many_taps_lies_in_shared_memory() -> None:
    template = CudaChannels()
    for K, places in (
        (3, ["loaded", "registers"]),
        (7, ["loaded", "registers", "shared"]),
        (31, ["shared"]),
    ):
        knobs = {knob.name: knob for knob in template.space(workload(K=K), H200).knobs}
        assert list(knobs["weights"].values) == places
