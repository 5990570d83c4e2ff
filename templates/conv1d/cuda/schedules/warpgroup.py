"""The programs of ``CudaWarpgroup``: this fills in ``warpgroup.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.schedules.rows import by_row
from templates.conv1d.cuda.warpgroup import shared_words
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import knobs
from templates.kernels.halves import HALVES, halves

SOURCE = Path(__file__).with_name("warpgroup.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    tile = 64 * config["columns"] * config["groups"]
    threads = 128 * config["groups"] * config["tap_groups"]
    parts, count = halves(config["arithmetic"]), config["columns"] // 2
    substitutions = {
        **knobs(config),
        **parts,
        "SCALED": parts["TYPE"] == "f16" and workload.dtype == "float32",
        "HALF_IO": workload.dtype != "float32",
        "WORDS": shared_words(workload, config),
        "REGISTERS": ", ".join(f"%{i}" for i in range(count)),
        "SUMS": ", ".join(f'"+f"(sum[{i}])' for i in range(count)),
        "W": count,
        "X": count + 1,
        "ADD": count + 2,
    }
    grid = ceil_div(workload.length, tile), threads, shared_words(workload, config)
    return by_row(workload, "warpgroup", substitutions, [HALVES, SOURCE], *grid)
