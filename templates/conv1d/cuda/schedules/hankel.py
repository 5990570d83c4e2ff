"""The programs of ``CudaHankel``: this fills in ``hankel.cu``, which explains the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.hankel import blocks, parts, segments, vectors
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import (
    ELEMENTS,
    EPILOGUE,
    NEXT_LAUNCH,
    elements,
    knobs,
    program,
    source_of,
)
from templates.kernels.halves import HALVES, OF_DTYPE, halves
from templates.kernels.launches.next_launch import begins_next

SOURCE = Path(__file__).with_name("hankel.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    grid = blocks(workload, config), config["threads"]
    return program(workload, "conv1d_hankel", _source(workload, config), *grid)


def _source(workload: Conv1dWorkload, config: dict[str, Any]) -> str:
    read, written = vectors(workload, config)
    substitutions = {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=config["tiles"] > 1),
        **shape(workload),
        **halves(OF_DTYPE[workload.dtype]),
        "NEXT": begins_next(config),
        "V": read,
        "VO": written,
        "PARTS": parts(workload, config),
        "SEGMENTS": segments(workload, config),
        "WARPS": config["threads"] // 32,
    }
    sources = (NEXT_LAUNCH, ELEMENTS, HALVES, EPILOGUE, SOURCE)
    return source_of(config, substitutions, *sources)
