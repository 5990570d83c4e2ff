"""The values that fill in the CUDA sources of all gradients in one program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.frame import Frame
from templates.conv1d.shape import extents
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import (
    DERIVATIVE,
    ELEMENTS,
    derivative,
    elements,
    include_once,
    knobs,
    render,
)

SLOPE = (DERIVATIVE, Path(__file__).with_name("backward_slope.cu"))


def source(config: dict[str, Any], values: dict[str, object], path: Path) -> str:
    """Return the whole source of a program, filled in; ``path`` is the template's own file."""
    text = render(values, ELEMENTS, *SLOPE, path)
    return include_once("CONV1D_BACKWARD", text, config["resident"])


def substitutions(
    workload: Conv1dWorkload, config: dict[str, Any], several: bool
) -> dict[str, object]:
    """Return the values for the knobs, the tensors and the derivative.

    ``several`` says whether a channel has several parts, whose sums are left in a workspace.
    """
    frame = Frame.of(workload)
    recomputed = workload.bias and workload.activation != "none"
    added = [
        *(["void* __restrict__ db"] if workload.bias else []),
        *(["void* __restrict__ workspace"] if several else []),
    ]
    return {
        **knobs(config),
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
        "SAMPLES_AHEAD": frame.samples_ahead,
        "OUTPUTS_AHEAD": frame.outputs_ahead,
    }
