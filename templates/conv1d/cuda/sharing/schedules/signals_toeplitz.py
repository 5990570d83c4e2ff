"""The programs of ``CudaSignalsToeplitz``: this fills in ``signals_toeplitz.cu``, which explains
the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.sharing.signals_toeplitz import blocks, cores, shared_words, threads
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, source_of
from templates.kernels.halves import OF_DTYPE, halves

SOURCE = Path(__file__).with_suffix(".cu")
MATRIX = Path(__file__).with_name("signals_toeplitz_matrix.cu")
TRANSPOSE = Path(__file__).with_name("transpose_of_four.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    files = ELEMENTS, EPILOGUE, MATRIX, TRANSPOSE, SOURCE
    source = source_of(config, substitutions(workload, config), *files)
    grid = blocks(workload, config), threads(config), shared_words(workload, config)
    return program(workload, "conv1d_signals_toeplitz", source, *grid)


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    sums = config["columns"] // 2
    return {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=False),
        **shape(workload),
        **halves(OF_DTYPE[workload.dtype]),
        "CORES": cores(workload, config),
        "WORDS": shared_words(workload, config),
        "REGISTERS": ", ".join(f"%{i}" for i in range(sums)),
        "SUMS": ", ".join(f'"+f"(sum[{i}])' for i in range(sums)),
        "SAMPLES": sums,
        "TAPS": sums + 1,
    }
