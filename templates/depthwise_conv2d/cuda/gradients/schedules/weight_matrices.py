"""Program of the weight's gradient on tensor cores, which fills in ``weight_tensor.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.gradients.schedules.weight_launches import (
    COPIES,
    PLACES,
    STAGES,
    TOTALS,
    launches,
    program,
    values,
)
from templates.depthwise_conv2d.cuda.gradients.weight_matrices import (
    bias_tap,
    shared_words,
    threads,
    work,
)
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import ELEMENTS, Launch, knobs, render
from templates.kernels.halves import HALVES, OF_DTYPE, halves

TENSOR = Path(__file__).with_name("weight_tensor.cu")
SOURCES = (*PLACES, COPIES, STAGES, TENSOR, TOTALS)
"""The sources that follow the elements and the products of halves."""


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    source = render(numbers(workload, config), HALVES, ELEMENTS, *SOURCES)
    both = both_launches(workload, config)
    return program(work(workload, config), source, config["resident"], both)


def both_launches(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> list[Launch]:
    """Return the program's two launches."""
    words = shared_words(workload, config)
    return launches(work(workload, config), threads(workload, config), words)


def numbers(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that fill in the sources."""
    tap = bias_tap(workload)
    return {
        **knobs(config),
        **values(work(workload, config), threads(workload, config)),
        **halves(OF_DTYPE[workload.dtype]),
        "N": config["warp_channels"],
        "ACROSS": config["channels"] // config["warp_channels"],
        "OWN": config["warp_channels"],
        "STAGED": True,
        "PLANES": workload.layout == "NCHW",
        "TENSOR": True,
        "BIAS_TAP": -1 if tap is None else tap,
        "WORDS": shared_words(workload, config),
    }
