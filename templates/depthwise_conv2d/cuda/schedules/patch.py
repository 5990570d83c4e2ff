"""Program of direct sums in register patches on CUDA, which fills in ``patch.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.patch import Layout, row_sums
from templates.depthwise_conv2d.shape import shape
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, render

SOURCES = [Path(__file__).with_name(name) for name in ("patch_elements.cu", "patch.cu")]


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    layout = Layout(workload, config)
    grid = layout.blocks, layout.threads, layout.words
    return program(workload, "depthwise_conv2d_patch", _source(workload, config, layout), *grid)


def _source(workload: DepthwiseConv2dWorkload, config: dict[str, Any], layout: Layout) -> str:
    taps_h, taps_w = workload.used_kernel
    values = {
        **knobs(config),
        **shape(workload),
        "K": workload.kernel[0],
        "KH": taps_h,
        "KW": taps_w,
        "PADDED": config["edges"] == "padded",
        "ALONG": config.get("lanes") == "columns",
        "UNROLLED": config["unroll"] == "rows",
        "W_KEPT": config.get("weights") == "registers",
        "ROW_SUMS": row_sums(workload),
        "OUT_STAGED": config["output"] == "shared",
        **elements(workload.dtype, "cached", kept=False),
        "WORDS": layout.words,
        "THREADS": layout.threads,
    }
    return render(values, ELEMENTS, EPILOGUE, *SOURCES)
