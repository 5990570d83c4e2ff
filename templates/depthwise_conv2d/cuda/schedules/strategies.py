"""Programs of the lecture's strategies, for CUDA and, as rungs of the ladder, for a CPU.

They are written out in TVMScript, because the strategies differ in their threads, not their stages.
"""

# mypy: ignore-errors
# ruff: noqa: PLR0912, PLR1716, SIM102, SIM300
# TVM parses TVMScript: its annotations are no types, and it has no chained comparisons.

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

from templates.ceil_div import ceil_div
from templates.depthwise_conv2d.cuda.strategies import (
    outputs_per_thread,
    taps_per_pass,
)
from templates.depthwise_conv2d.cuda.strategies import (
    tile as tile_of,
)
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.spaces.grid import frames


def computation(
    workload: DepthwiseConv2dWorkload, config: dict[str, Any], kind: str = "cuda"
) -> Any:
    made = _halo_global if config["strategy"] == "halo_global" else _tiled
    return made(workload, config, kind)


def _halo_global(workload: DepthwiseConv2dWorkload, config: dict[str, Any], kind: str) -> Any:
    """Return the program with the tile in shared memory and the halo read from global memory."""
    B, C, H, W, K = workload.B, workload.C, workload.H, workload.W, workload.kernel[0]
    s, dtype = workload.stride, workload.dtype
    taps_h, taps_w = workload.used_kernel
    pad_h, pad_w = taps_h // 2, taps_w // 2
    first_h, first_w = K // 2 - pad_h, K // 2 - pad_w
    rows, columns = workload.out_height, workload.out_width
    ty, tx = config["threads_y"], config["threads_x"]
    down, across = ceil_div(rows, ty), ceil_div(columns, tx)
    block, thread, shared = frames(kind)

    x_shape, w_shape, y_shape = (argument.shape for argument in workload.arguments)

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer(x_shape, dtype),
        w: T.Buffer(w_shape, dtype),
        y: T.Buffer(y_shape, dtype),
    ):
        T.func_attr({"tirx.noalias": True})
        for b in block(B * C * down * across):
            with T.sblock("tile"):
                T.reads(x[0:B, 0:C, 0:H, 0:W], w[0:C, 0, 0:K, 0:K])
                T.writes(y[0:B, 0:C, 0:rows, 0:columns])
                tile = T.sblock_alloc_buffer((ty * s, tx * s), "float32", scope=shared)
                part = T.sblock_alloc_buffer((1,), "float32", scope="local")
                total = T.sblock_alloc_buffer((1,), "float32", scope="local")
                n: T.let[T.int32] = b // (down * across)
                top: T.let[T.int32] = b % (down * across) // across * ty
                left: T.let[T.int32] = b % across * tx
                for i in thread(ty, "y"):
                    for j in thread(tx):
                        for r in T.unroll(s):
                            for q in T.unroll(s):
                                h: T.let[T.int32] = top * s + r * ty + i
                                k: T.let[T.int32] = left * s + q * tx + j
                                tile[r * ty + i, q * tx + j] = T.if_then_else(
                                    h < H and k < W,
                                    T.cast(x[n // C, n % C, h, k], "float32"),
                                    T.float32(0),
                                )
                for i in thread(ty, "y"):
                    for j in thread(tx):
                        total[0] = T.float32(0)
                        for ky in range(taps_h):
                            part[0] = T.float32(0)
                            for kx in range(taps_w):
                                u: T.let[T.int32] = i * s + ky - pad_h
                                v: T.let[T.int32] = j * s + kx - pad_w
                                part[0] = part[0] + T.cast(
                                    w[n % C, 0, first_h + ky, first_w + kx], "float32"
                                ) * T.if_then_else(
                                    0 <= u and u < ty * s and 0 <= v and v < tx * s,
                                    tile[u, v],
                                    T.if_then_else(
                                        0 <= top * s + u
                                        and top * s + u < H
                                        and 0 <= left * s + v
                                        and left * s + v < W,
                                        T.cast(
                                            x[n // C, n % C, top * s + u, left * s + v], "float32"
                                        ),
                                        T.float32(0),
                                    ),
                                )
                            total[0] = total[0] + part[0]
                        if top + i < rows and left + j < columns:
                            y[n // C, n % C, top + i, left + j] = T.cast(total[0], dtype)

    return main


def _tiled(workload: DepthwiseConv2dWorkload, config: dict[str, Any], kind: str) -> Any:
    """Return the program with tile and halo in shared memory.

    The taps are summed in passes, and each pass loads its own tile.
    """
    B, C, H, W, K = workload.B, workload.C, workload.H, workload.W, workload.kernel[0]
    s, dtype = workload.stride, workload.dtype
    taps_h, taps_w = workload.used_kernel
    pad_h, pad_w = taps_h // 2, taps_w // 2
    first_h, first_w = K // 2 - pad_h, K // 2 - pad_w
    rows, columns = workload.out_height, workload.out_width
    ty, tx = config["threads_y"], config["threads_x"]
    each_y, each_x = outputs_per_thread(config)
    high, wide = tile_of(workload, config)
    chunk_y, chunk_x = taps_per_pass(workload, config)
    down, across = ceil_div(rows, high), ceil_div(columns, wide)
    passes_y, passes_x = ceil_div(taps_h, chunk_y), ceil_div(taps_w, chunk_x)
    span_y, span_x = (high - 1) * s + chunk_y, (wide - 1) * s + chunk_x
    loads_y, loads_x = ceil_div(span_y, ty), ceil_div(span_x, tx)
    block, thread, shared = frames(kind)

    x_shape, w_shape, y_shape = (argument.shape for argument in workload.arguments)

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer(x_shape, dtype),
        w: T.Buffer(w_shape, dtype),
        y: T.Buffer(y_shape, dtype),
    ):
        T.func_attr({"tirx.noalias": True})
        for b in block(B * C * down * across):
            with T.sblock("tile"):
                T.reads(x[0:B, 0:C, 0:H, 0:W], w[0:C, 0, 0:K, 0:K])
                T.writes(y[0:B, 0:C, 0:rows, 0:columns])
                tile = T.sblock_alloc_buffer((span_y, span_x), "float32", scope=shared)
                part = T.sblock_alloc_buffer((each_y, ty, each_x, tx), "float32", scope="local")
                total = T.sblock_alloc_buffer((each_y, ty, each_x, tx), "float32", scope="local")
                n: T.let[T.int32] = b // (down * across)
                top: T.let[T.int32] = b % (down * across) // across * high
                left: T.let[T.int32] = b % across * wide
                for i in thread(ty, "y"):
                    for j in thread(tx):
                        for r in T.unroll(each_y):
                            for q in T.unroll(each_x):
                                total[r, i, q, j] = T.float32(0)
                for cy, cx in T.grid(passes_y, passes_x):
                    for i in thread(ty, "y"):
                        for j in thread(tx):
                            for r, q in T.grid(loads_y, loads_x):
                                u: T.let[T.int32] = r * ty + i
                                v: T.let[T.int32] = q * tx + j
                                h: T.let[T.int32] = top * s + cy * chunk_y + u - pad_h
                                k: T.let[T.int32] = left * s + cx * chunk_x + v - pad_w
                                if u < span_y and v < span_x:
                                    tile[u, v] = T.if_then_else(
                                        0 <= h and h < H and 0 <= k and k < W,
                                        T.cast(x[n // C, n % C, h, k], "float32"),
                                        T.float32(0),
                                    )
                    for i in thread(ty, "y"):
                        for j in thread(tx):
                            if i < high and j < wide:
                                for r in T.unroll(each_y):
                                    for q in T.unroll(each_x):
                                        part[r, i, q, j] = T.float32(0)
                                for ky in range(T.min(chunk_y, taps_h - cy * chunk_y)):
                                    for kx in range(T.min(chunk_x, taps_w - cx * chunk_x)):
                                        for r in T.unroll(each_y):
                                            for q in T.unroll(each_x):
                                                part[r, i, q, j] = part[r, i, q, j] + tile[
                                                    (r * ty + i) * s + ky, (q * tx + j) * s + kx
                                                ] * T.cast(
                                                    w[
                                                        n % C,
                                                        0,
                                                        first_h + cy * chunk_y + ky,
                                                        first_w + cx * chunk_x + kx,
                                                    ],
                                                    "float32",
                                                )
                                for r in T.unroll(each_y):
                                    for q in T.unroll(each_x):
                                        total[r, i, q, j] = total[r, i, q, j] + part[r, i, q, j]
                for i in thread(ty, "y"):
                    for j in thread(tx):
                        for r in T.unroll(each_y):
                            for q in T.unroll(each_x):
                                if r * ty + i < high and q * tx + j < wide:
                                    if top + r * ty + i < rows and left + q * tx + j < columns:
                                        y[n // C, n % C, top + r * ty + i, left + q * tx + j] = (
                                            T.cast(total[r, i, q, j], dtype)
                                        )

    return main
