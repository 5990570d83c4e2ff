"""The programs of ``CudaWeightProducts``: this fills in ``weight_products.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.gradients.products import shared_words, threads
from templates.conv1d.cuda.gradients.schedules import products
from templates.conv1d.cuda.gradients.weight_products import blocks, parts, workspace
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, include_once, program_of_launches

SOURCE = Path(__file__).with_name("weight_products.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = products.source_text(config, substitutions(workload, config), SOURCE)
    return program_of_launches(
        workload,
        include_once("CONV1D_WEIGHT", source, config["resident"]),
        launches(workload, config),
        workspace(workload, config),
    )


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    """Return the launches: the products, and the sums of the parts if there are several."""
    count, words = threads(config), shared_words(config)
    first = Launch("conv1d_weight_products", blocks(workload, config), count, words)
    if parts(workload, config) == 1:
        return [first]
    last = ceil_div(workload.output.elements, count)
    return [first, Launch("conv1d_weight_total", last, count, words)]


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    several = parts(workload, config) > 1
    return {
        **products.substitutions(workload, config),
        "HAS_BIAS": workload.bias,
        "PARTS": parts(workload, config),
        "WORKSPACE": "void* __restrict__ workspace, " if several else "",
        "PARTS_OF": "workspace" if several else "y",
    }
