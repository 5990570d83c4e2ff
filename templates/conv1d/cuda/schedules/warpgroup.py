"""The warpgroup form on CUDA: see ``warpgroup.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.schedules.rows import by_row
from templates.conv1d.cuda.warpgroup import shared_words
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.halves import ARITHMETICS, HALVES
from templates.kernels.written import knobs

SOURCE = Path(__file__).with_name("warpgroup.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    groups = config["groups"]
    kind, products = ARITHMETICS[config["arithmetic"]]
    columns, half = config["columns"], workload.dtype != "float32"
    count = columns // 2
    values = {
        **knobs(config),
        "COLUMNS": columns,
        "GROUPS": groups,
        "PRODUCTS": products,
        "TYPE": kind,
        "IS_BF16": kind == "bf16",
        "SCALED": kind == "f16" and not half,
        "HALF_IO": half,
        "WORDS": shared_words(workload, config),
        "REGISTERS": ", ".join(f"%{i}" for i in range(count)),
        "SUMS": ", ".join(f'"+f"(sum[{i}])' for i in range(count)),
        "W": count,
        "X": count + 1,
        "ADD": count + 2,
    }
    return by_row(
        workload,
        "warpgroup",
        values,
        HALVES,
        SOURCE,
        blocks=ceil_div(workload.length, 64 * columns * groups),
        threads=128 * groups * config["tap_groups"],
        words=shared_words(workload, config),
    )
