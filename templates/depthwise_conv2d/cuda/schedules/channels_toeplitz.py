"""Channels last on tensor cores: see ``channels_toeplitz.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.channels_toeplitz import Layout
from templates.depthwise_conv2d.shape import shape
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.halves import HALVES
from templates.kernels.written import (
    ELEMENTS,
    EPILOGUE,
    elements,
    epilogue,
    filled,
    program,
    resident,
)

SOURCE = Path(__file__).with_name("channels_toeplitz.cu")


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    layout = Layout(workload, config)
    return program(
        workload,
        "depthwise_channels_toeplitz",
        _source(workload, config),
        blocks=layout.blocks,
        threads=layout.threads,
        words=layout.shared_bytes // 4,
    )


def _source(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> str:
    layout = Layout(workload, config)
    values = {
        **elements(workload.dtype, config["stores"], kept=True),
        **epilogue(workload),
        **shape(workload),
        "TYPE": "bf16" if workload.dtype == "bfloat16" else "f16",
        "PRODUCTS": 1,
        "TILE_ROWS": config["tile_rows"],
        "CHANNELS": config["channels"],
        "WARP_CHANNELS": config["warp_channels"],
        "WALKS": config["walks"],
        "LINES": config["lines"],
        "FRAGMENTS": config["fragments"],
        "ROWS": config["rows"],
        "STAGES": config["stages"],
        "THREADS": layout.threads,
        "WORDS": layout.shared_bytes // 4,
    }
    return filled(values, ELEMENTS, HALVES, EPILOGUE, SOURCE) + resident(config["resident"])
