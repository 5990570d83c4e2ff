"""Channels last on sparse tensor cores: see ``channels_sparse.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.channels_sparse import Layout
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

SOURCE = Path(__file__).with_name("channels_sparse.cu")


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    layout = Layout(workload, config)
    return program(
        workload,
        "depthwise_channels_sparse",
        _source(workload, config),
        blocks=layout.blocks,
        threads=layout.threads,
        words=layout.shared_bytes // 4,
    )


def _source(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> str:
    layout = Layout(workload, config)
    height, width = workload.kernel
    down, across = workload.used
    values = {
        **elements(workload.dtype, config["stores"], kept=False),
        **epilogue(workload),
        "TYPE": "bf16" if workload.dtype == "bfloat16" else "f16",
        "B": workload.B,
        "C": workload.C,
        "H": workload.H,
        "W": workload.W,
        "HO": workload.out_height,
        "WO": workload.out_width,
        "KERNEL": height * width,
        "KW": width,
        "FLIP": workload.is_flipped,
        "TAPS_H": down.count,
        "TAPS_W": across.count,
        "FIRST": down.first * width + across.first,
        "TOP": down.before,
        "LEFT": across.before,
        "TILE_ROWS": config["tile_rows"],
        "STACK": config["stack"],
        "EACH": config["each"],
        "CHANNELS": config["channels"],
        "ROWS": config["rows"],
        "WALKS": config["walks"],
        "PITCH": layout.pitch,
        "WALK": layout.walk,
        "PLANE": layout.plane,
        "THREADS": layout.threads,
    }
    return filled(values, ELEMENTS, EPILOGUE, SOURCE) + resident(config["resident"])
