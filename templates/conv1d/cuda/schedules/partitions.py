"""The programs of ``CudaPartitions``: this fills in ``partitions.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.fft import threads
from templates.conv1d.cuda.partitions import (
    inputs,
    rows_of_samples,
    rows_of_segments,
    segments,
    spectra,
    words,
    workspace,
)
from templates.conv1d.cuda.schedules.fft import TRANSFORMS, transformed
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import (
    ELEMENTS,
    EPILOGUE,
    Launch,
    include_once,
    program_of_launches,
    render,
)

SOURCE = Path(__file__).with_name("partitions.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = render(values(workload, config), ELEMENTS, EPILOGUE, *TRANSFORMS, SOURCE)
    return program_of_launches(
        workload,
        include_once("CONV1D_PARTITIONS", source, config["resident"]),
        launches(workload, config),
        workspace(workload, config),
    )


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    width, memory = threads(config), words(config)
    there = Launch("conv1d_spectra", spectra(workload, config), width, memory)
    back = Launch("conv1d_back", rows_of_segments(workload, config), width, memory)
    if config["products"] == "fused":
        return [there, back]
    lines = workload.rows * ceil_div(segments(workload, config), config["together"])
    return [there, Launch("conv1d_products", 16 * lines, width, 0), back]


def values(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    met = inputs(workload, config)
    return {
        **transformed(workload),
        "FIRST": config["points"] // 256,
        "FUSED": config["products"] == "fused",
        "TOGETHER": config.get("together", 1),
        "LOW": met.start,
        "INPUTS": len(met),
        "ROWS": rows_of_samples(workload),
        "WORDS": words(config),
        "WORKSPACE": workspace(workload, config),
    }
