"""The weight's gradient on tensor cores: see ``weight_tensor.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.gradients.schedules.weight_launches import (
    COPIES,
    PLACES,
    STAGES,
    TOTALS,
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
from templates.kernels.halves import HALVES
from templates.kernels.written import ELEMENTS, filled

TENSOR = Path(__file__).with_name("weight_tensor.cu")


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    share, count = work(workload, config), threads(workload, config)
    words = shared_words(workload, config)
    numbers = {
        **values(share, count),
        "TYPE": "bf16" if workload.dtype == "bfloat16" else "f16",
        "PRODUCTS": 1,
        "N": config["warp_channels"],
        "ACROSS": config["channels"] // config["warp_channels"],
        "OWN": config["warp_channels"],
        "STAGED": True,
        "PLANES": workload.layout == "NCHW",
        "TENSOR": True,
        "BIAS_TAP": -1 if (tap := bias_tap(workload)) is None else tap,
        "STAGES": config["stages"],
        "COPIED_STEPS": config["copied_steps"],
        "WORDS": words,
    }
    source = filled(numbers, HALVES, ELEMENTS, *PLACES, COPIES, STAGES, TENSOR, TOTALS)
    return program(source, config["resident"], share, count, words)
