"""The programs of ``CudaFft``: this fills in ``fft.cu``, which explains the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.fft import (
    block_threads,
    blocks,
    dropped,
    shared_words,
    teams,
    threads,
)
from templates.conv1d.roles import roles
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import (
    BARRIERS,
    ELEMENTS,
    EPILOGUE,
    NEXT_LAUNCH,
    elements,
    program,
    source_of,
)
from templates.kernels.launches.next_launch import begins_next, held_words

SOURCE = Path(__file__).with_name("fft.cu")
TRANSFORMS = tuple(
    Path(__file__).with_name(name) for name in ("fft_radix.cu", "fft_reals.cu", "fft_block.cu")
)

FILES = (ELEMENTS, EPILOGUE, BARRIERS, NEXT_LAUNCH, *TRANSFORMS, SOURCE)


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    return program(
        workload,
        "conv1d_fft",
        source_of(config, substitutions(workload, config), *FILES),
        blocks=blocks(workload, config),
        threads=block_threads(config),
        words=held_words(config, shared_words(config)),
    )


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    return {
        **transform_substitutions(workload),
        "FIRST": config["points"] // 256,
        "THREADS": threads(config),
        "EACH": config["segments"],
        "TEAMS": teams(config),
        "DROPPED": dropped(workload, config),
        "APART": config["spectrum"] == "shared",
        "EARLY": config["samples"] == "early",
        "WORDS": shared_words(config),
        "NEXT": begins_next(config),
    }


def transform_substitutions(workload: Conv1dWorkload) -> dict[str, object]:
    """Return the values that every CUDA source of transforms is filled in with."""
    role = roles(workload)
    return {
        **elements(workload.dtype, "cached", kept=False),
        **shape(workload),
        "SWAPPED": role.swapped,
        "N": role.taps.extent,
        "M": role.samples.extent,
        "TAPS_FIRST": role.taps.first,
        "TAPS_APART": role.taps.apart,
        "SAMPLES_FIRST": role.samples.first,
        "SAMPLES_APART": role.samples.apart,
        "LEFT": role.left,
        "KERNELS": role.kernels,
        "SIGNALS": role.signals,
    }
