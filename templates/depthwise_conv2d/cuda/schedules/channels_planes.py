"""Channels last, long kernels, on tensor cores: see ``channels_planes.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.channels_planes import Layout
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

SOURCE = Path(__file__).with_name("channels_planes.cu")


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    layout = Layout(workload, config)
    return program(
        workload,
        "depthwise_channels_planes",
        filled(numbers(workload, config), ELEMENTS, HALVES, EPILOGUE, SOURCE)
        + resident(config["resident"]),
        blocks=layout.blocks,
        threads=layout.threads,
        words=layout.shared_bytes // 4,
    )


def numbers(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> dict[str, object]:
    return {
        **elements(workload.dtype, config["stores"], kept=True),
        **epilogue(workload),
        **shape(workload),
        "TYPE": "bf16" if workload.dtype == "bfloat16" else "f16",
        "PRODUCTS": 1,
        "FRAGMENT_ROWS": config["fragment_rows"],
        "GROUPS": config["groups"],
        "ROW_WARPS": config["row_warps"],
        "TILES": config["column_tiles"],
        "WALKS": config["walks"],
        "WORDS": Layout(workload, config).shared_bytes // 4,
    }
