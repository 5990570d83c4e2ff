"""Program for channels last on sparse tensor cores, which fills in ``channels_sparse.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.channels_sparse import Layout
from templates.depthwise_conv2d.shape import shape
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, source_of
from templates.kernels.halves import OF_DTYPE, halves

SOURCE = Path(__file__).with_name("channels_sparse.cu")


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    layout = Layout(workload, config)
    grid = layout.blocks, layout.threads, layout.shared_bytes // 4
    return program(workload, "depthwise_channels_sparse", _source(workload, config), *grid)


def _source(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> str:
    layout = Layout(workload, config)
    values = {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=False),
        **shape(workload),
        **halves(OF_DTYPE[workload.dtype]),
        "PITCH": layout.pitch,
        "WALK": layout.walk,
        "PLANE": layout.plane,
        "THREADS": layout.threads,
    }
    return source_of(config, values, ELEMENTS, EPILOGUE, SOURCE)
