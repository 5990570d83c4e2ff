"""The programs of ``CudaImplicitWarpgroup``: this fills in ``implicit_warpgroup.cu``, which
explains the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.implicit_warpgroup import (
    blocks,
    neighbours,
    registers,
    row_pairs_prefetched,
    shared_words,
    threads,
)
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, source_of
from templates.kernels.halves import OF_DTYPE, halves

SIGNAL = Path(__file__).with_name("implicit_signal.cu")
SOURCE = Path(__file__).with_name("implicit_warpgroup.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    grid = blocks(workload, config), threads(config), shared_words(workload, config)
    return program(workload, "conv1d_implicit_warpgroup", _source(workload, config), *grid)


def _source(workload: Conv1dWorkload, config: dict[str, Any]) -> str:
    sums = config["columns"] // 2
    shares = registers(workload, config)
    substitutions = {
        **knobs(config),
        **elements(workload.dtype, "cached", kept=False),
        **shape(workload),
        **halves(OF_DTYPE[workload.dtype]),
        "NEIGHBOURS": neighbours(workload),
        "STAGERS": 128 * config["staging_groups"],
        "FEWER": _taken("dec", shares.staging, shares.launched),
        "MORE": _taken("inc", shares.multiplying, shares.launched),
        "HELD": row_pairs_prefetched(workload, config),
        "WORDS": shared_words(workload, config),
        "REGISTERS": ", ".join(f"%{i}" for i in range(sums)),
        "SUMS": ", ".join(f'"+f"(sum[{i}])' for i in range(sums)),
        "WEIGHTS": ", ".join(f"%{sums + i}" for i in range(4)),
        "ROWS": sums + 4,
        "ADD": sums + 5,
    }
    return source_of(config, substitutions, ELEMENTS, EPILOGUE, SIGNAL, SOURCE)


def _taken(way: str, registers: int, launched: int) -> str:
    """Return the instruction with which a thread takes more registers ("inc") or gives some up
    ("dec"); an empty string if it keeps those of the launch."""
    if registers == launched:
        return ""
    return f'  asm volatile("setmaxnreg.{way}.sync.aligned.u32 {registers};");'
