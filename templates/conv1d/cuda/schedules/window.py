"""The programs of ``CudaWindow``: this fills in ``window.cu``, which explains the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.window import blocks, vector_dividing
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, source_of

SOURCE = Path(__file__).with_name("window.cu")
READS = Path(__file__).with_name("window_reads.cu")
LANES = Path(__file__).with_name("window_lanes.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    grid = blocks(workload, config), config["threads"]
    return program(workload, "conv1d_window", _source(workload, config), *grid)


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that the CUDA sources are filled in with."""
    return {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=config["steps"] > 1),
        **shape(workload),
        "WINDOW": config["reads"] == "window",
        "LANES": config["reads"] == "lanes",
        "ROWS": workload.rows,
        "VO": min(config["outputs"], vector_dividing(workload, workload.length)),
        "VW": vector_dividing(workload, workload.N),
    }


def source_of_sums(config: dict[str, Any]) -> Path:
    """Return the CUDA file in which a thread reads samples and sums them."""
    return LANES if config["reads"] == "lanes" else READS


def _source(workload: Conv1dWorkload, config: dict[str, Any]) -> str:
    sources = ELEMENTS, EPILOGUE, SOURCE, source_of_sums(config)
    return source_of(config, substitutions(workload, config), *sources)
