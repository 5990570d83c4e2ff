"""The programs of ``CudaStrategies``, also for a CPU, for which they are rungs of the ladder.

They are written in TVMScript, because the strategies differ in their threads, not in their
stages."""

# mypy: ignore-errors
# ruff: noqa: PLR0912, SIM300
# TVM parses TVMScript: its annotations are not types, and it has no chained comparisons

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

from templates.ceil_div import ceil_div
from templates.conv1d.cuda.seeds.strategies import (
    outputs_per_block,
    outputs_per_thread,
    taps_per_pass,
)
from templates.conv1d.workload import Conv1dWorkload
from templates.spaces.grid import frames


def computation(workload: Conv1dWorkload, config: dict[str, Any], kind: str = "cuda") -> Any:
    made = _halo_global if config["strategy"] == "halo_global" else _tiled
    return made(workload, config, kind)


def _halo_global(workload: Conv1dWorkload, config: dict[str, Any], kind: str) -> Any:
    """Return the program that has the tile in shared memory and reads its halo from global
    memory."""
    M, N, L, left = workload.M, workload.N, workload.length, workload.left
    first, sign = (N - 1, -1) if workload.kind == "convolve" else (0, 1)
    middle = N // 2
    threads, chunk = config["threads"], taps_per_pass(workload, config)
    chunks, blocks = ceil_div(N, chunk), ceil_div(L, threads)
    block, thread, shared = frames(kind)

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((M,), workload.dtype),
        w: T.Buffer((N,), workload.dtype),
        y: T.Buffer((L,), workload.dtype),
    ):
        T.func_attr({"tirx.noalias": True})
        for b in block(blocks):
            with T.sblock("tile"):
                T.reads(x[0:M], w[0:N])
                T.writes(y[0:L])
                tile = T.sblock_alloc_buffer((threads,), "float32", scope=shared)
                part = T.sblock_alloc_buffer((1,), "float32", scope="local")
                total = T.sblock_alloc_buffer((1,), "float32", scope="local")
                for th in thread(threads):
                    tile[th] = T.if_then_else(
                        0 <= b * threads + th + middle - left
                        and b * threads + th + middle - left < M,
                        T.cast(x[b * threads + th + middle - left], "float32"),
                        T.float32(0),
                    )
                for th in thread(threads):
                    total[0] = T.float32(0)
                    for c in range(chunks):
                        part[0] = T.float32(0)
                        for t in range(T.min(chunk, N - c * chunk)):
                            part[0] = part[0] + T.cast(
                                w[first + sign * (c * chunk + t)], "float32"
                            ) * T.if_then_else(
                                0 <= th + c * chunk + t - middle
                                and th + c * chunk + t - middle < threads,
                                tile[th + c * chunk + t - middle],
                                T.if_then_else(
                                    0 <= b * threads + th + c * chunk + t - left
                                    and b * threads + th + c * chunk + t - left < M,
                                    T.cast(x[b * threads + th + c * chunk + t - left], "float32"),
                                    T.float32(0),
                                ),
                            )
                        total[0] = total[0] + part[0]
                    if b * threads + th < L:
                        y[b * threads + th] = T.cast(total[0], workload.dtype)

    return main


def _tiled(workload: Conv1dWorkload, config: dict[str, Any], kind: str) -> Any:
    """Return the program with tile and halo in shared memory. It goes through the taps in passes,
    each of which loads a tile of its own."""
    M, N, L, left = workload.M, workload.N, workload.length, workload.left
    first, sign = (N - 1, -1) if workload.kind == "convolve" else (0, 1)
    threads, each = config["threads"], outputs_per_thread(config)
    outputs, chunk = outputs_per_block(workload, config), taps_per_pass(workload, config)
    span, blocks, chunks = outputs + chunk - 1, ceil_div(L, outputs), ceil_div(N, chunk)
    loads = ceil_div(span, threads)
    block, thread, shared = frames(kind)

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((M,), workload.dtype),
        w: T.Buffer((N,), workload.dtype),
        y: T.Buffer((L,), workload.dtype),
    ):
        T.func_attr({"tirx.noalias": True})
        for b in block(blocks):
            with T.sblock("tile"):
                T.reads(x[0:M], w[0:N])
                T.writes(y[0:L])
                tile = T.sblock_alloc_buffer((span,), "float32", scope=shared)
                part = T.sblock_alloc_buffer((each, threads), "float32", scope="local")
                total = T.sblock_alloc_buffer((each, threads), "float32", scope="local")
                for th in thread(threads):
                    for r in T.unroll(each):
                        total[r, th] = T.float32(0)
                for c in range(chunks):
                    for th in thread(threads):
                        for load in range(loads):
                            if load * threads + th < span:
                                tile[load * threads + th] = T.if_then_else(
                                    left <= b * outputs + c * chunk + load * threads + th
                                    and b * outputs + c * chunk + load * threads + th < M + left,
                                    T.cast(
                                        x[b * outputs + c * chunk + load * threads + th - left],
                                        "float32",
                                    ),
                                    T.float32(0),
                                )
                    for th in thread(threads):
                        if th < outputs:
                            for r in T.unroll(each):
                                part[r, th] = T.float32(0)
                            for t in range(T.min(chunk, N - c * chunk)):
                                for r in T.unroll(each):
                                    part[r, th] = part[r, th] + tile[r * threads + th + t] * T.cast(
                                        w[first + sign * (c * chunk + t)], "float32"
                                    )
                            for r in T.unroll(each):
                                total[r, th] = total[r, th] + part[r, th]
                for th in thread(threads):
                    for r in T.unroll(each):
                        if r * threads + th < outputs and b * outputs + r * threads + th < L:
                            y[b * outputs + r * threads + th] = T.cast(total[r, th], workload.dtype)

    return main
