"""Program for channels last and long kernels on tensor cores: fills in ``channels_planes.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.channels_planes import Layout
from templates.depthwise_conv2d.shape import shape
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, source_of
from templates.kernels.halves import HALVES, OF_DTYPE, halves

SOURCE = Path(__file__).with_name("channels_planes.cu")


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    layout = Layout(workload, config)
    source = source_of(config, numbers(workload, config), ELEMENTS, HALVES, EPILOGUE, SOURCE)
    grid = layout.blocks, layout.threads, layout.shared_bytes // 4
    return program(workload, "depthwise_channels_planes", source, *grid)


def numbers(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that fill in ``channels_planes.cu``."""
    return {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=True),
        **shape(workload),
        **halves(OF_DTYPE[workload.dtype]),
        "WORDS": Layout(workload, config).shared_bytes // 4,
    }
