"""The programs of ``CudaImplicit``: this fills in ``implicit.cu``, which explains the algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.implicit_layout import (
    blocks,
    chain,
    filter_blocks,
    rows_prefetched,
    shared_words,
    slack,
    threads,
)
from templates.conv1d.shape import shape
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import ELEMENTS, EPILOGUE, elements, knobs, program, source_of
from templates.kernels.halves import HALVES, halves

SIGNAL = Path(__file__).with_name("implicit_signal.cu")
OUTPUTS = Path(__file__).with_name("implicit_outputs.cu")
STREAMED = Path(__file__).with_name("implicit_streamed.cu")
REST = Path(__file__).with_name("implicit_rest.cu")
LAYOUT = Path(__file__).with_name("implicit_layout.cu")
SCALE = Path(__file__).with_name("implicit_scale.cu")
SOURCE = Path(__file__).with_name("implicit.cu")


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    grid = blocks(workload, config), threads(config), shared_words(workload, config)
    return program(workload, "conv1d_implicit", _source(workload, config), *grid)


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that the CUDA sources are filled in with."""
    found = {
        **knobs(config),
        **elements(workload.dtype, "cached", kept=False),
        **shape(workload),
        "ELEMENT": "word" if workload.dtype == "float32" else "unsigned short",
        **halves(config["arithmetic"]),  # type of the halves, into which float32 is split
        "ALONG_TAPS": config["along"] == "taps",
        "SHIFTED": slack(workload, config) > 0,
        "FILTER_BLOCKS": filter_blocks(workload, config),
        "STREAMED": config.get("streamed", 0),
        "IS_STREAMED": int(config.get("streamed", 0) > 0),
        "STREAM_STAGES": config.get("stream_stages", 1),
        "HELD": rows_prefetched(workload, config),
        "AHEAD": config["fragments"] == 2,
        "CHAIN": chain(workload, config),
        "WORDS": shared_words(workload, config),
    }
    if config.get("streamed"):
        sums = 4 * config["position_tiles"]  # the first operands of the instruction
        found |= {
            "COLUMNS": 8 * config["position_tiles"],
            "REGISTERS": ", ".join(f"%{i}" for i in range(sums)),
            "SUMS": ", ".join(f'"+f"(sum[{i // 4}][{i % 4}])' for i in range(sums)),
            "WEIGHTS": ", ".join(f"%{sums + i}" for i in range(4)),
            "ROWS": sums + 4,
        }
    return found


def _source(workload: Conv1dWorkload, config: dict[str, Any]) -> str:
    streamed = [STREAMED, REST] if config.get("streamed") else []
    sources = (ELEMENTS, HALVES, EPILOGUE, SIGNAL, OUTPUTS, LAYOUT, SCALE, *streamed, SOURCE)
    return source_of(config, substitutions(workload, config), *sources)
