"""All gradients of signals apart: see ``backward_rows.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.gradients.backward_rows import (
    blocks,
    count,
    parts,
    tiles,
    together,
    workspace,
)
from templates.conv1d.frame import Frame
from templates.conv1d.shape import extents
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.written import (
    DERIVATIVE,
    ELEMENTS,
    Launch,
    derivative,
    elements,
    filled,
    launched,
    once,
)

SOURCE = Path(__file__).with_name("backward_rows.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = filled(numbers(workload, config), ELEMENTS, DERIVATIVE, SOURCE)
    return launched(
        workload,
        once("CONV1D_BACKWARD", source, config["resident"]),
        launches(workload, config),
        workspace(workload, config),
    )


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    """The second one only if a channel has several parts."""
    threads = config["threads"]
    first = Launch("conv1d_backward_rows", blocks(workload, config), threads, 0)
    if count(workload, config) == 1:
        return [first]
    adding = workload.C * (workload.N + workload.bias) * together(workload, config)
    return [first, Launch("conv1d_backward_total", ceil_div(adding, threads), threads, 0)]


def numbers(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    frame, several = Frame.of(workload), count(workload, config) > 1
    recomputed = workload.bias and workload.activation != "none"
    added = [
        *(["void* __restrict__ db"] if workload.bias else []),
        *(["void* __restrict__ workspace"] if several else []),
    ]
    return {
        **elements(workload.dtype, config["stores"], kept=True),
        **derivative(workload),
        "GIVEN": "const void* __restrict__ bias, " if recomputed else "",
        "BIAS": "bias" if recomputed else "nullptr",
        "HAS_OFFSET": recomputed,
        "OTHERS": "".join(f", {each}" for each in added),
        "DB": "db" if workload.bias else "nullptr",
        "WORKSPACE": "workspace" if several else "nullptr",
        "HAS_BIAS": workload.bias,
        "HALVED": workload.activation == "silu",
        **extents(workload),
        "V": config["vector"],
        "STEPS": config["steps"],
        "AHEAD": config["ahead"],
        "THREADS": config["threads"],
        "TILES": tiles(workload, config),
        "PARTS": parts(workload, config),
        "COUNT": count(workload, config),
        "SAMPLES_AHEAD": frame.samples_ahead,
        "OUTPUTS_AHEAD": frame.outputs_ahead,
    }
