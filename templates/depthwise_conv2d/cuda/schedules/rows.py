"""Strips of rows on CUDA: see ``rows.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.rows import blocks, row_words, shared_words, threads
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.written import (
    ELEMENTS,
    EPILOGUE,
    elements,
    epilogue,
    filled,
    program,
    resident,
)

SOURCE = Path(__file__).with_name("rows.cu")
READS = {
    "shared": Path(__file__).with_name("rows_staged.cu"),
    "global": Path(__file__).with_name("rows_direct.cu"),
}
"""What follows it."""


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    return program(
        workload,
        "depthwise_rows",
        _source(workload, config),
        blocks=blocks(workload, config),
        threads=threads(workload, config),
        words=shared_words(workload, config),
    )


def _source(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> str:
    taps_h, taps_w = workload.near
    values = {
        **elements(workload.dtype, config["stores"], kept=bool(config.get("ahead"))),
        **epilogue(workload),
        "PLANES": workload.B * workload.C,
        "C": workload.C,
        "H": workload.H,
        "W": workload.W,
        "K": workload.kernel[0],
        "STRIDE": workload.stride,
        "FLIP": workload.is_flipped,
        "TAPS_H": taps_h,
        "TAPS_W": taps_w,
        "R": config["rows"],
        "STREAMING": config["stores"] == "streaming",
    }
    if config["reads"] == "shared":
        values |= {
            "V": workload.out_width,
            "P": config["planes"],
            "IMAGES": config["images"],
            "ASYNC": config["staging"] == "async",
            "BULK": config["staging"] == "bulk",
            "EACH_STRIP": config["strips"] == "each",
            "WORDS": shared_words(workload, config),
        }
    else:
        values |= {
            "V": config["columns"],
            "AHEAD": config["ahead"],
            "THREADS": config["threads"],
            "ROW_WORDS": row_words(workload, config["columns"]),
        }
    source = filled(values, ELEMENTS, EPILOGUE, SOURCE, READS[config["reads"]])
    return source + resident(1) if config.get("registers") == "enough" else source
