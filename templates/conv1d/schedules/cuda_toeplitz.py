"""The tensor-core form on CUDA: see ``toeplitz.cu``, which this fills in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvm.s_tir import Schedule
from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

from templates.conv1d.cuda_toeplitz import shared_words
from templates.conv1d.workload import Conv1dWorkload

SOURCE = Path(__file__).with_name("toeplitz.cu")
TYPES = {"fp16x3": ("f16", 3), "bf16x3": ("bf16", 3), "fp16": ("f16", 1), "bf16": ("bf16", 1)}


def computation(workload: Conv1dWorkload, config: dict[str, Any]) -> Any:
    tile = 128 * config["warps"] * config["row_tiles"]
    return _program(
        workload,
        blocks=-(-workload.length // tile),
        threads=32 * config["warps"],
        words=shared_words(config),
        source=_source(workload, config),
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
    source = SOURCE.read_text()
    for name, value in values.items():
        source = source.replace(f"@{name}@", str(value))
    return source


def _program(workload: Conv1dWorkload, blocks: int, threads: int, words: int, source: str) -> Any:
    M, N, L = workload.M, workload.N, workload.length

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((M,), "float32"), w: T.Buffer((N,), "float32"), y: T.Buffer((L,), "float32")
    ):
        T.func_attr({"tirx.noalias": True})
        for _ in T.thread_binding(blocks, thread="blockIdx.x"):
            for _ in T.thread_binding(threads, thread="threadIdx.x"):
                with T.sblock("toeplitz"):
                    T.reads(x[0:M], w[0:N])
                    T.writes(y[0:L])
                    shared = T.sblock_alloc_buffer((words,), "uint32", scope="shared.dyn")
                    T.evaluate(
                        T.cuda.func_call(
                            "conv1d_toeplitz",
                            x.data,
                            w.data,
                            y.data,
                            shared.data,
                            source_code=source,
                        )
                    )

    return main
