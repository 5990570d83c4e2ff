"""The programs of ``CudaInputRows``: this fills in ``input_rows.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.gradients.input_rows import blocks
from templates.conv1d.shape import extents
from templates.conv1d.workload import Conv1dWorkload
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

SOURCE = Path(__file__).with_name("input_rows.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = source_of(config, substitutions(workload, config), ELEMENTS, DERIVATIVE, SOURCE)
    return program_of_launches(workload, source, [launch(workload, config)])


def launch(workload: Conv1dWorkload, config: dict[str, Any]) -> Launch:
    return Launch("conv1d_input_rows", blocks(workload, config), config["threads"], 0)


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    return {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=False),
        **derivative(workload),
        **extents(workload),
        "LAST": workload.layout == "NWC",
    }
