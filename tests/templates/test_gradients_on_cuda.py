"""Every gradient has a template on CUDA, in each layout and dtype, at any stride and dilation."""

from itertools import product
from typing import Any

import pytest

import templates
from tests.templates.devices import H200, T4

BASE: dict[str, dict[str, Any]] = {
    "conv1d": {"B": 2, "C": 6, "M": 40, "N": 5},
    "depthwise_conv2d": {"B": 2, "C": 6, "H": 9, "W": 11, "K": 5},
}
LAYOUTS = {"conv1d": ("NCW", "NWC"), "depthwise_conv2d": ("NCHW", "NHWC")}
CHANNELS: dict[str, list[dict[str, Any]]] = {
    "conv1d": [{}, {"F": 12}, {"F": 4, "groups": 1}],
    "depthwise_conv2d": [{}, {"multiplier": 2}],
}


@pytest.mark.parametrize("limits", [T4, H200], ids=lambda limits: limits.arch)
@pytest.mark.parametrize("direction", ["backward_input", "backward_weight"])
@pytest.mark.parametrize("operator", BASE)
def test_every_gradient_has_a_cuda_template(operator: str, direction: str, limits: Any) -> None:
    strides = {"conv1d": [1, 2, 3, 4, 7, 100], "depthwise_conv2d": [1, 2, 3, 4]}
    choices = product(
        LAYOUTS[operator],
        ["float32", "bfloat16", "float16"],
        strides[operator],
        [1, 2, 50, 300] if operator == "conv1d" else [1, 2, 50],
        ["none", "silu"],
        CHANNELS[operator],
    )
    for layout, dtype, stride, dilation, activation, channels in choices:
        fields = {**BASE[operator], "layout": layout, "dtype": dtype, "stride": stride, **channels}
        fields |= {"dilation": dilation, "activation": activation, "direction": direction}
        if operator == "depthwise_conv2d":
            fields["padding"] = (4 * dilation,) * 4
        work = templates.operator(operator).workload.model_validate(fields)
        assert templates.templates_for(work, limits), fields
