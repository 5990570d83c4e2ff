"""The programs of ``CudaWeightRows``: this fills in ``weight_rows.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.gradients.weight_rows import blocks, parts, shared_words, workspace
from templates.conv1d.shape import extents
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import (
    DERIVATIVE,
    ELEMENTS,
    Launch,
    derivative,
    elements,
    include_once,
    knobs,
    program_of_launches,
    render,
)

SOURCE = Path(__file__).with_name("weight_rows.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = render(substitutions(workload, config), ELEMENTS, DERIVATIVE, SOURCE)
    return program_of_launches(
        workload,
        include_once("CONV1D_WEIGHT", source, config["resident"]),
        launches(workload, config),
        workspace(workload, config),
    )


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    """Return the launches: the sums, and the sums of the parts if there are several."""
    threads, words = config["threads"], shared_words(workload, config)
    first = Launch("conv1d_weight_rows", blocks(workload, config), threads, words)
    if parts(workload, config) == 1:
        return [first]
    sums = workload.out_channels * (workload.N + workload.bias)
    return [first, Launch("conv1d_weight_total", ceil_div(sums, threads), threads, words)]


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    several = parts(workload, config) > 1
    return {
        **knobs(config),
        **elements(workload.dtype, "cached", kept=False),
        **derivative(workload),
        "HAS_BIAS": workload.bias,
        **extents(workload),
        "LAST": workload.layout == "NWC",
        "PARTS": parts(workload, config),
        "WORDS": shared_words(workload, config),
        "WORKSPACE": "void* __restrict__ workspace, " if several else "",
        "PARTS_OF": "workspace" if several else "y",
    }
