"""The programs of ``CudaBackwardRows``: this fills in ``backward_rows.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.gradients.backward_rows import (
    blocks,
    parts,
    parts_of_channel,
    threads_per_sum,
    tiles,
    workspace,
)
from templates.conv1d.cuda.gradients.schedules import backward
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, program_of_launches

SOURCE = Path(__file__).with_name("backward_rows.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = backward.source(config, substitutions(workload, config), SOURCE)
    floats = workspace(workload, config)
    return program_of_launches(workload, source, launches(workload, config), floats)


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    """Return the launches: the gradients, and the sums of a channel's parts if it has several."""
    threads = config["threads"]
    first = Launch("conv1d_backward_rows", blocks(workload, config), threads, 0)
    if parts_of_channel(workload, config) == 1:
        return [first]
    adding = workload.C * (workload.N + workload.bias) * threads_per_sum(workload, config)
    return [first, Launch("conv1d_backward_total", ceil_div(adding, threads), threads, 0)]


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    return {
        **backward.substitutions(workload, config, parts_of_channel(workload, config) > 1),
        "TILES": tiles(workload, config),
        "PARTS": parts(workload, config),
        "COUNT": parts_of_channel(workload, config),
    }
