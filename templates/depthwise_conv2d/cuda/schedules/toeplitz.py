"""Program of the tensor-core form for planes on CUDA, which fills in ``toeplitz.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.toeplitz import Layout
from templates.depthwise_conv2d.shape import shape
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, render
from templates.kernels.halves import HALVES, halves

SOURCE = Path(__file__).with_name("toeplitz.cu")


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    layout = Layout(workload, config)
    grid = layout.blocks, 32 * config["warps"], layout.shared_words
    return program(workload, "depthwise_toeplitz", _source(workload, config, layout), *grid)


def _source(workload: DepthwiseConv2dWorkload, config: dict[str, Any], layout: Layout) -> str:
    values = {
        **knobs(config),
        **shape(workload),
        **halves(config["arithmetic"]),
        "IS_HALF": int(workload.dtype != "float32"),
        "HALVED": "true" if config["steps"] == "halved" else "false",
        "SLIDING": "true" if config["taps"] == "sliding" else "false",
        "TAP_ROWS_PER_SUM": layout.tap_rows_per_sum,
        "K": workload.kernel[0],
        "WORDS": layout.shared_words,
    }
    ends = {**elements(workload.dtype, "cached", kept=False), **shape(workload)}
    return render(ends, ELEMENTS, EPILOGUE) + render(values, HALVES, SOURCE)
