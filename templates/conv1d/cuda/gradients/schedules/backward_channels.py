"""The programs of ``CudaBackwardChannels``: this fills in ``backward_channels.cu``, which explains
the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.gradients.backward_channels import (
    blocks,
    parts,
    parts_of_channel,
    places,
    places_per_turn,
    workspace,
)
from templates.conv1d.cuda.gradients.schedules import backward
from templates.conv1d.frame import Frame
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import Launch, program_of_launches

SOURCE = Path(__file__).with_name("backward_channels.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = backward.source(config, substitutions(workload, config), SOURCE)
    floats = workspace(workload, config)
    return program_of_launches(workload, source, launches(workload, config), floats)


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    """Return the launches: the gradients, and the sums of a channel's parts if it has several."""
    threads = config["threads"]
    first = Launch("conv1d_backward_channels", blocks(workload, config), threads, 0)
    if parts_of_channel(workload, config) == 1:
        return [first]
    adding = ceil_div(workload.C, 32) * (workload.N + workload.bias)
    return [first, Launch("conv1d_backward_total", adding, threads, threads)]


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    return {
        **backward.substitutions(workload, config, parts_of_channel(workload, config) > 1),
        "TURN": places_per_turn(workload, config),
        "PLACES": places(workload, config),
        "EXTENT": Frame.of(workload).extent,
        "PARTS": parts(workload, config),
    }
