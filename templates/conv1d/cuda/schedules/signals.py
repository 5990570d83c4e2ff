"""The programs of ``CudaSignals``: this fills in ``signals.cu``, which explains the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.signals import blocks
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, render

SOURCE = Path(__file__).with_name("signals.cu")
CHUNK = 512
"""Most products that are added up in one float32 sum. More products need several such sums."""


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    grid = blocks(workload, config), config["threads"]
    return program(workload, "conv1d_signals", _source(workload, config), *grid)


def _source(workload: Conv1dWorkload, config: dict[str, Any]) -> str:
    substitutions = {
        **knobs(config),
        **elements(workload.dtype, "cached", kept=False),
        **shape(workload),
        "CHUNK": CHUNK,
    }
    return render(substitutions, ELEMENTS, EPILOGUE, SOURCE)
