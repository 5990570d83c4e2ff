"""The programs of ``CudaToeplitz``: this fills in ``toeplitz.cu``, which explains the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.schedules.rows import by_row
from templates.conv1d.cuda.toeplitz import shared_words
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import knobs
from templates.kernels.halves import HALVES, halves

SOURCE = Path(__file__).with_name("toeplitz.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    tile = 128 * config["warps"] * config["row_tiles"]
    parts = halves(config["arithmetic"])
    substitutions = {
        **knobs(config),
        **parts,
        "PEELED": config["tail"] == "peeled",
        "WORDS": shared_words(config),
        "HALF_IO": workload.dtype != "float32",
        "SCALED": parts["TYPE"] == "f16" and workload.dtype == "float32",
    }
    grid = ceil_div(workload.length, tile), 32 * config["warps"], shared_words(config)
    return by_row(workload, "toeplitz", substitutions, [HALVES, SOURCE], *grid)
