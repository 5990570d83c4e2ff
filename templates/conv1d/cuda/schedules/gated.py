"""Program of ``CudaGated``, which fills in ``gated.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.gated import blocks
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import ELEMENTS, elements, epilogue, knobs, program, source_of

SOURCE = Path(__file__).with_name("gated.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    source = source_of(config, substitutions(workload, config), ELEMENTS, SOURCE)
    return program(workload, "conv1d_gated", source, blocks(workload, config), config["threads"])


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that fill in ``elements.cu`` and ``gated.cu``."""
    return {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=False),
        **epilogue(workload),
        "B": workload.B,
        "C": workload.C,
        "M": workload.M,
        "TAPS": workload.N,
        "LEFT": workload.left,
        "DILATION": workload.dilation,
        "IS_FLIPPED": workload.kind == "convolve",
        "IS_STRIP": config["reads"] == "strip",
    }
