"""Program for channels last on tensor cores, which fills in ``channels_toeplitz.cu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.channels_toeplitz_layout import Layout, has_room_for_biases
from templates.depthwise_conv2d.shape import shape
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.kernels.cuda_source import (
    ELEMENTS,
    EPILOGUE,
    NEXT_LAUNCH,
    TENSOR_COPIES,
    Launch,
    elements,
    knobs,
    program_of_launches,
    source_of,
)
from templates.kernels.halves import HALVES, OF_DTYPE, halves
from templates.kernels.launches.next_launch import begins_next
from templates.kernels.tensor_map import TensorMap

SOURCE = Path(__file__).with_name("channels_toeplitz.cu")
COPIES = {
    "threads": (SOURCE.with_name("channels_toeplitz_threads.cu"),),
    "tensor": (TENSOR_COPIES, SOURCE.with_name("channels_toeplitz_tensor.cu")),
}


def computation(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Any:
    sources = NEXT_LAUNCH, ELEMENTS, HALVES, EPILOGUE, SOURCE, *COPIES[config["copies"]]
    source = source_of(config, numbers(workload, config), *sources)
    return program_of_launches(workload, source, [launch(workload, config)])


def launch(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> Launch:
    """Return the program's only launch."""
    layout = Layout(workload, config)
    grid = layout.blocks, layout.threads, layout.shared_bytes // 4
    maps = _maps(workload, config)
    return Launch("depthwise_channels_toeplitz", *grid, maps, waits_itself=True)


def numbers(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that fill in the sources."""
    layout = Layout(workload, config)
    return {
        **knobs(config),
        **elements(workload.dtype, config["stores"], kept=True),
        **shape(workload),
        **halves(OF_DTYPE[workload.dtype]),
        "IS_STREAMING": config["stores"] == "streaming",
        "THREADS": layout.threads,
        "OUTPUTS": layout.outputs,
        "NEXT": begins_next(config),
        "HAS_ROOM_FOR_BIASES": has_room_for_biases(workload, config),
        "WORDS": layout.shared_bytes // 4,
        "MAPS": "".join(f"tensor_map {each.symbol}_map, " for each in _maps(workload, config)),
        "RESIDUAL_MAP": "r_map" if workload.residual else "0",
    }


def _maps(workload: DepthwiseConv2dWorkload, config: dict[str, Any]) -> tuple[TensorMap, ...]:
    """Return the maps of the input, of a residual if there is one, and of the output."""
    if config["copies"] == "threads":
        return ()
    layout = Layout(workload, config)
    images, channels = config["walks"], config["channels"]
    box = (images, layout.piece * config["tile_rows"], 8 * config["lines"], channels)
    outputs = ("r", "y") if workload.residual else ("y",)
    return (
        TensorMap("x", (images, layout.piece * layout.down, layout.wide, channels)),
        *(TensorMap(symbol, box) for symbol in outputs),
    )
