"""Program of strips of rows on CUDA, which fills in ``rows.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.rows import blocks, row_words, shared_words, threads
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
    render,
    resident,
)
from templates.kernels.launches.next_launch import begins_next

SOURCE = Path(__file__).with_name("rows.cu")
READS = {
    "shared": Path(__file__).with_name("rows_staged.cu"),
    "global": Path(__file__).with_name("rows_direct.cu"),
}
"""The source that follows, for each value of the knob ``reads``."""


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    grid = blocks(workload, config), threads(workload, config), shared_words(workload, config)
    launch = Launch("depthwise_rows", *grid, waits_itself=True)
    return program_of_launches(workload, _source(workload, config), [launch])


def _source(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> str:
    values = {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=bool(config.get("ahead"))),
        **shape(workload),
        "PLANES": workload.B * workload.C,
        "K": workload.kernel[0],
        "STREAMING": config["stores"] == "streaming",
    }
    if config["reads"] == "shared":
        values |= {
            "V": workload.out_width,
            "P": config["planes"],
            "ASYNC": config["staging"] == "async",
            "BULK": config["staging"] == "bulk",
            "EACH_STRIP": config["strips"] == "each",
            "WORDS": shared_words(workload, config),
        }
    else:
        values |= {
            "V": config["columns"],
            "ROW_WORDS": row_words(workload, config["columns"]),
            "NEXT": begins_next(config),
        }
    source = render(values, NEXT_LAUNCH, ELEMENTS, EPILOGUE, SOURCE, READS[config["reads"]])
    return source + resident(1) if config.get("registers") == "enough" else source
