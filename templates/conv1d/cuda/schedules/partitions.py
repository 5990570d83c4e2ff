"""The programs of ``CudaPartitions``: this fills in ``partitions.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.fft import threads
from templates.conv1d.cuda.partitions import (
    input_segments,
    rows_of_samples,
    rows_of_segments,
    segments,
    shared_words,
    spectrum_count,
    workspace,
)
from templates.conv1d.cuda.schedules.fft import TRANSFORMS, transform_substitutions
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import (
    BARRIERS,
    ELEMENTS,
    EPILOGUE,
    NEXT_LAUNCH,
    Launch,
    include_once,
    program_of_launches,
    render,
)
from templates.kernels.launches.next_launch import begins_next, held_words

SOURCE = Path(__file__).with_name("partitions.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    files = ELEMENTS, EPILOGUE, BARRIERS, NEXT_LAUNCH, *TRANSFORMS, SOURCE
    source = render(substitutions(workload, config), *files)
    return program_of_launches(
        workload,
        include_once("CONV1D_PARTITIONS", source, config["resident"]),
        launches(workload, config),
        workspace(workload, config),
    )


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    width, memory = threads(config), held_words(config, shared_words(config))
    there = Launch("conv1d_spectra", spectrum_count(workload, config), width, memory)
    back = Launch("conv1d_back", rows_of_segments(workload, config), width, memory)
    if config["products"] == "fused":
        return [there, back]
    lines = workload.rows * ceil_div(segments(workload, config), config["together"])
    return [there, Launch("conv1d_products", 16 * lines, width, 0), back]


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    met = input_segments(workload, config)
    return {
        **transform_substitutions(workload),
        "FIRST": config["points"] // 256,
        "THREADS": threads(config),
        "TEAMS": 1,
        "FUSED": config["products"] == "fused",
        "TOGETHER": config.get("together", 1),
        "LOW": met.start,
        "INPUTS": len(met),
        "ROWS": rows_of_samples(workload),
        "WORDS": shared_words(config),
        "NEXT": begins_next(config),
        "WORKSPACE": workspace(workload, config),
    }
