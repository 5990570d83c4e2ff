"""The programs of ``CudaInputProducts``: this fills in ``input_products.cu``, which explains the
algorithm."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from templates.conv1d.cuda.gradients.input_products import blocks
from templates.conv1d.cuda.gradients.products import shared_words, threads
from templates.conv1d.cuda.gradients.schedules import products
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, program_of_launches, resident

SOURCE = Path(__file__).with_name("input_products.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = products.source_text(config, substitutions(workload, config), SOURCE)
    return program_of_launches(
        workload, source + resident(config["resident"]), launches(workload, config)
    )


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    grid = blocks(workload, config), threads(config), shared_words(config)
    return [Launch("conv1d_input_products", *grid)]


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    common = math.gcd(workload.stride, workload.dilation)
    inverse = pow(workload.dilation // common, -1, workload.stride // common)
    return {**products.substitutions(workload, config), "COMMON": common, "INVERSE": inverse}
