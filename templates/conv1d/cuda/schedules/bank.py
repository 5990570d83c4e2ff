"""The programs of ``CudaBank``: this fills in ``bank.cu``, which explains the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.bank import blocks
from templates.conv1d.cuda.implicit_layout import filter_blocks, slack, threads
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, source_of
from templates.kernels.halves import HALVES, OF_DTYPE, halves

SIGNAL = Path(__file__).with_name("implicit_signal.cu")
OUTPUTS = Path(__file__).with_name("implicit_outputs.cu")
SOURCE = Path(__file__).with_name("bank.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    grid = blocks(workload, config), threads(config)
    return program(workload, "conv1d_bank", _source(workload, config), *grid)


def _source(workload: Conv1dWorkload, config: dict[str, Any]) -> str:
    substitutions = {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=True),
        **shape(workload),
        **halves(OF_DTYPE[workload.dtype]),
        "SHIFTED": slack(workload, config) > 0,
        "FILTER_BLOCKS": filter_blocks(workload, config),
    }
    sources = (ELEMENTS, HALVES, EPILOGUE, SIGNAL, OUTPUTS, SOURCE)
    return source_of(config, substitutions, *sources)
