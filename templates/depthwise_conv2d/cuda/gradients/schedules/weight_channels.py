"""Program of the weight's gradient in multiply-adds, which fills in ``weight_places.cu``."""

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
from templates.depthwise_conv2d.cuda.gradients.weight_channels import shared_words, threads, work
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import ELEMENTS, Launch, knobs, render

DIRECT = Path(__file__).with_name("weight_direct.cu")
STAGED = Path(__file__).with_name("weight_staged.cu")
PRIVATE = Path(__file__).with_name("weight_private.cu")
GIVEN = Path(__file__).with_name("weight_given.cu")
MIDDLE = {
    "registers": [DIRECT],
    "private": [COPIES, PRIVATE],
    "shared": [COPIES, STAGES, STAGED],
}


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    source = render(numbers(workload, config), ELEMENTS, *sources(config))
    both = both_launches(workload, config)
    return program(work(workload, config), source, config["resident"], both)


def sources(config: dict[str, Any]) -> list[Path]:
    """Return the source files that follow ``elements.cu``."""
    return [*PLACES, *MIDDLE[config["inputs"]], GIVEN, TOTALS]


def both_launches(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> list[Launch]:
    """Return the program's two launches."""
    words = shared_words(workload, config)
    return launches(work(workload, config), threads(workload, config), words)


def numbers(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that fill in the sources."""
    return {
        **knobs(config),
        **values(work(workload, config), threads(workload, config)),
        "N": config["channels"],
        "ACROSS": config["lanes"],
        "AHEAD": config.get("ahead") == 1,
        "STAGED": config["inputs"] == "shared",
        "PLANES": workload.layout == "NCHW",
        "TENSOR": False,
        "WORDS": shared_words(workload, config),
    }
