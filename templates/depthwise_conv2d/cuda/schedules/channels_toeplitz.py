"""Program for channels last on tensor cores, which fills in ``channels_toeplitz.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.channels_toeplitz import Layout
from templates.depthwise_conv2d.shape import shape
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import (
    ELEMENTS,
    EPILOGUE,
    elements,
    knobs,
    program,
    render,
    resident,
)
from templates.kernels.halves import HALVES, OF_DTYPE, halves

SOURCE = Path(__file__).with_name("channels_toeplitz.cu")


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    layout = Layout(workload, config)
    grid = layout.blocks, layout.threads, layout.shared_bytes // 4
    return program(workload, "depthwise_channels_toeplitz", _source(workload, config), *grid)


def _source(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> str:
    layout = Layout(workload, config)
    values = {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=True),
        **shape(workload),
        **halves(OF_DTYPE[workload.dtype]),
        "THREADS": layout.threads,
        "WORDS": layout.shared_bytes // 4,
    }
    return render(values, ELEMENTS, HALVES, EPILOGUE, SOURCE) + resident(config["resident"])
