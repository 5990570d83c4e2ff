"""The programs of ``CudaSignalsFourier``: this fills in ``signals_fourier.cu``, which explains the
algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.schedules.fft import TRANSFORMS
from templates.conv1d.cuda.sharing.schedules.signals_toeplitz import TRANSPOSE
from templates.conv1d.cuda.sharing.signals_fourier import (
    TAPS_RESIDENT,
    TAPS_THREADS,
    TAPS_WORDS,
    THREADS,
    blocks,
    shared_words,
    workspace,
)
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import (
    ELEMENTS,
    EPILOGUE,
    Launch,
    elements,
    include_once,
    program_of_launches,
    render,
)

SOURCE = Path(__file__).with_suffix(".cu")
RADIX, *_ = TRANSFORMS
TAPS = Path(__file__).with_name("signals_fourier_taps.cu")
MATRIX = Path(__file__).with_name("signals_fourier_matrix.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    files = ELEMENTS, EPILOGUE, MATRIX, RADIX, TAPS, TRANSPOSE, SOURCE
    source = render(substitutions(workload, config), *files)
    return program_of_launches(
        workload,
        include_once(
            "CONV1D_SIGNALS_FOURIER", source, f"threads == {TAPS_THREADS} ? {TAPS_RESIDENT} : 1"
        ),
        launches(workload, config),
        workspace(workload, config),
    )


def launches(workload: Conv1dWorkload, config: dict[str, Any]) -> list[Launch]:
    memory = TAPS_WORDS[config["block"]]
    taps = Launch("conv1d_tap_spectra", workload.out_channels, TAPS_THREADS, memory)
    signals = blocks(workload, config), THREADS, shared_words(config)
    return [taps, Launch("conv1d_signals_fourier", *signals)]


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    return {
        **elements(workload.dtype, config["stores"], kept=False),
        **shape(workload),
        "BLOCK": config["block"],
        "TAPS_THREADS": TAPS_THREADS,
        "ITEMS": config["items"],
        "WORDS": shared_words(config),
        "WORKSPACE": workspace(workload, config),
        "REGISTERS": ", ".join(f"%{i}" for i in range(32)),
        "SUMS": ", ".join(f'"+f"(sum[{i}])' for i in range(32)),
        "NEW_SUMS": ", ".join(f'"=f"(sum[{i}])' for i in range(32)),
    }
