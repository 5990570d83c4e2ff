"""The programs of ``CudaRegisters``: this fills in ``registers.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.schedules.rows import by_row
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import NEXT_LAUNCH, knobs
from templates.kernels.launches.next_launch import begins_next

SOURCE = Path(__file__).with_name("registers.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    outputs = config["threads"] // config["shares"] * config["outputs_per_thread"]
    grid = ceil_div(workload.length, outputs), config["threads"], 1
    values = knobs(config) | {"NEXT": begins_next(config)}
    return by_row(workload, "registers", values, [NEXT_LAUNCH, SOURCE], *grid)
