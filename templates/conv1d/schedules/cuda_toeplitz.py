"""The tensor-core form on CUDA: see ``toeplitz.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm.s_tir import Schedule

from templates.conv1d.cuda_toeplitz import shared_words
from templates.conv1d.workload import Conv1dWorkload
from templates.written import filled, program

SOURCE = Path(__file__).with_name("toeplitz.cu")
TYPES = {"fp16x3": ("f16", 3), "bf16x3": ("bf16", 3), "fp16": ("f16", 1), "bf16": ("bf16", 1)}


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    tile = 128 * config["warps"] * config["row_tiles"]
    return program(
        workload,
        "conv1d_toeplitz",
        _source(workload, config),
        blocks=-(-workload.length // tile),
        threads=32 * config["warps"],
        words=shared_words(config),
    )


def schedule(sch: Schedule, config: dict[str, Any]) -> None:
    """Nothing is left to schedule: the program is one call for each thread."""


def _source(workload: Conv1dWorkload, config: dict[str, Any]) -> str:
    kind, products = TYPES[config["arithmetic"]]
    values = {
        "WARPS": config["warps"],
        "MT": config["row_tiles"],
        "PRODUCTS": products,
        "TYPE": kind,
        "IS_BF16": int(kind == "bf16"),
        "M": workload.M,
        "N": workload.N,
        "L": workload.length,
        "LEFT": workload.left,
        "CHUNK": config["taps_per_chunk"],
        "PEELED": int(config["tail"] == "peeled"),
        "WORDS": shared_words(config),
        "FLIP": "true" if workload.kind == "convolve" else "false",
    }
    return filled(SOURCE, values)
