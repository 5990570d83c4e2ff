"""Values that fill in the sources of a weight's gradient, and the two launches of its program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from templates.depthwise_conv2d.cuda.gradients.weight_work import Work
from templates.depthwise_conv2d.shape import extents
from templates.kernels.cuda_source import (
    DERIVATIVE,
    Launch,
    derivative,
    elements,
    include_once,
    program_of_launches,
)

PLACES = (DERIVATIVE, Path(__file__).with_name("weight_places.cu"))
COPIES = Path(__file__).with_name("weight_copies.cu")
STAGES = Path(__file__).with_name("weight_stages.cu")
TOTALS = Path(__file__).with_name("weight_parts.cu")


def program(work: Work, source: str, resident_blocks: int, both: Sequence[Launch]) -> Any:
    """Return a program whose two launches call functions of ``source``."""
    once = include_once("DEPTHWISE_WEIGHT", source, resident_blocks)
    return program_of_launches(work.workload, once, both, work.workspace)


def launches(work: Work, threads: int, words: int) -> list[Launch]:
    """Return the two launches: sums in parts, then the sums of the parts.

    ``words`` is the number of 32-bit words of shared memory of a block of the first launch.
    """
    last = 32 * work.slices
    return [
        Launch("depthwise_weight_parts", work.blocks, threads, words),
        Launch("depthwise_weight_total", work.last_blocks, last, last),
    ]


def values(work: Work, threads: int) -> dict[str, object]:
    """Return the values that fill in the sources of every template with such work."""
    workload = work.workload
    down, across = workload.used_taps
    return {
        **elements(workload.dtype, "cached", kept=False),
        **derivative(workload),
        **extents(workload),
        "C": workload.out_channels,
        "SEVERAL": workload.multiplier,
        "HAS_BIAS": workload.bias,
        "FIRST_H": down.first,
        "FIRST_W": across.first,
        "TR": work.tap_rows,
        "TC": work.tap_columns,
        "V": work.columns,
        "RANGES": work.ranges,
        "SLICES": work.slices,
        "IMAGES": max(1, work.images),
        "THREADS": threads,
    }
