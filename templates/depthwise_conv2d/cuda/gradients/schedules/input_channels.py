"""Program of the input's gradient on CUDA, which fills in ``input_channels.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda.gradients.input_channels import blocks, shared_words
from templates.depthwise_conv2d.shape import extents
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import (
    DERIVATIVE,
    ELEMENTS,
    Launch,
    derivative,
    elements,
    knobs,
    program_of_launches,
    source_of,
)

SOURCE = Path(__file__).with_name("input_channels.cu")
UNROLLED = 5  # the most turns of rows of taps that are unrolled


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    source = source_of(config, numbers(workload, config), ELEMENTS, DERIVATIVE, SOURCE)
    return program_of_launches(workload, source, [launch(workload, config)])


def launch(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Launch:
    """Return the program's launch."""
    grid = blocks(workload, config), config["threads"], shared_words(workload, config)
    return Launch("depthwise_input_channels", *grid)


def numbers(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that fill in ``input_channels.cu``."""
    height, _ = workload.kernel
    top, left, _, _ = workload.pads
    turns = ceil_div(height, workload.stride)
    return {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=False),
        **derivative(workload),
        **extents(workload),
        "PLANES": workload.layout == "NCHW",
        "SEVERAL": workload.multiplier,
        "KH": height,
        "TOP": top,
        "LEFT": left,
        "UNROLLED": turns if turns <= UNROLLED else 1,
        "WORDS": shared_words(workload, config),
    }
