"""Program for channels last on CUDA, which fills in ``channels.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.channels import blocks, shared_words
from templates.depthwise_conv2d.shape import shape
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import (
    ELEMENTS,
    EPILOGUE,
    NEXT_LAUNCH,
    Launch,
    elements,
    knobs,
    program_of_launches,
    source_of,
)
from templates.kernels.launches.next_launch import begins_next

SOURCE = Path(__file__).with_name("channels.cu")
REGISTERS = Path(__file__).with_name("channels_registers.cu")
SHARED = Path(__file__).with_name("channels_shared.cu")
WEIGHTS = {"loaded": REGISTERS, "registers": REGISTERS, "shared": SHARED}
"""The source that follows, for each value of the knob ``weights``."""


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    sources = NEXT_LAUNCH, ELEMENTS, EPILOGUE, SOURCE, WEIGHTS[config["weights"]]
    source = source_of(config, numbers(workload, config), *sources)
    return program_of_launches(workload, source, [launch(workload, config)])


def launch(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Launch:
    """Return the program's only launch."""
    grid = blocks(workload, config), config["threads"], shared_words(workload, config)
    return Launch("depthwise_channels", *grid, waits_itself=True)


def numbers(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that fill in the sources."""
    is_staged = config["weights"] == "registers"
    return {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=config.get("ahead", 0) > 0),
        **shape(workload),
        "R": config.get("rows", 1),
        "WORDS": shared_words(workload, config),
        "IS_STAGED": is_staged,
        "NEXT": begins_next(config),
        "MEMORY": ", word* shared" if is_staged else "",
        "STAGED": "(char*)shared" if is_staged else "nullptr",
    }
