"""The strategies of seed 002, a lecture on tiled convolution, in two dimensions: who loads the halo
of a block's tile, and how much each thread does.

Written out in TVMScript: here it is the threads, not the stages, that differ. A block has 16 by 16
threads; taps come in passes, each with a tile of its own, where a kernel is wider than one
holds."""

# mypy: ignore-errors
# ruff: noqa: PLR0912, PLR1716, SIM102, SIM300
# TVMScript is parsed by TVM: its annotations are no types, and it has no chained comparisons

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.grid import frames

SIDE = 16
SEVERAL = 2
NARROW = 9
"""Rows of taps in a pass where the threads cover the halo as well, so that half a side computes."""
WIDEST = 48
"""Otherwise: the tile of 32 by 32 outputs, two columns apart, fits 48 KB."""


def halo_from_global(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """The tile's inputs in shared memory; the halo is read from global memory."""
    C, H, W, K, s = workload.C, workload.H, workload.W, workload.K, workload.stride
    rows, columns, pad = workload.out_height, workload.out_width, workload.K // 2
    down, across = -(-rows // SIDE), -(-columns // SIDE)
    blocks, side = workload.B * C * down * across, SIDE * s
    block, thread, shared = frames(kind)

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer(workload.input_shape, "float32"),
        w: T.Buffer(workload.weight_shape, "float32"),
        y: T.Buffer(workload.output_shape, "float32"),
    ):
        T.func_attr({"tirx.noalias": True})
        for b in block(blocks):
            with T.sblock("tile"):
                T.reads(x[0 : workload.B, 0:C, 0:H, 0:W], w[0:C, 0, 0:K, 0:K])
                T.writes(y[0 : workload.B, 0:C, 0:rows, 0:columns])
                tile = T.sblock_alloc_buffer((side, side), "float32", scope=shared)
                part = T.sblock_alloc_buffer((1,), "float32", scope="local")
                total = T.sblock_alloc_buffer((1,), "float32", scope="local")
                n: T.let[T.int32] = b // (down * across)
                top: T.let[T.int32] = b % (down * across) // across * SIDE
                left: T.let[T.int32] = b % across * SIDE
                for i in thread(SIDE, "y"):
                    for j in thread(SIDE):
                        for r in T.unroll(s):
                            for q in T.unroll(s):
                                tile[r * SIDE + i, q * SIDE + j] = T.if_then_else(
                                    top * s + r * SIDE + i < H and left * s + q * SIDE + j < W,
                                    x[
                                        n // C,
                                        n % C,
                                        top * s + r * SIDE + i,
                                        left * s + q * SIDE + j,
                                    ],
                                    T.float32(0),
                                )
                for i in thread(SIDE, "y"):
                    for j in thread(SIDE):
                        total[0] = T.float32(0)
                        for ky in range(K):
                            part[0] = T.float32(0)
                            for kx in range(K):
                                u: T.let[T.int32] = i * s + ky - pad
                                v: T.let[T.int32] = j * s + kx - pad
                                part[0] = part[0] + w[n % C, 0, ky, kx] * T.if_then_else(
                                    0 <= u and u < side and 0 <= v and v < side,
                                    tile[u, v],
                                    T.if_then_else(
                                        0 <= top * s + u
                                        and top * s + u < H
                                        and 0 <= left * s + v
                                        and left * s + v < W,
                                        x[n // C, n % C, top * s + u, left * s + v],
                                        T.float32(0),
                                    ),
                                )
                            total[0] = total[0] + part[0]
                        if top + i < rows and left + j < columns:
                            y[n // C, n % C, top + i, left + j] = total[0]

    return Schedule(main)


def halo_in_shared_many_loads(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """As many threads as outputs; tile and halo in shared memory, several loads a thread."""
    return _tiled(workload, kind, SIDE, WIDEST)


def one_load_idle_threads(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """As many threads as the tile has inputs, one load each; those over the halo do not compute.
    A kernel of more than 9 by 9 takes several passes."""
    chunk = min(workload.K, NARROW)
    return _tiled(workload, kind, (SIDE - chunk) // workload.stride + 1, chunk)


def several_outputs(workload: DepthwiseConv2dWorkload, kind: str) -> Schedule:
    """Two by two outputs a thread, so that a tile has less halo for its size."""
    return _tiled(workload, kind, SEVERAL * SIDE, WIDEST)


def _tiled(workload: DepthwiseConv2dWorkload, kind: str, outputs: int, longest: int) -> Schedule:
    """Blocks of ``outputs`` by ``outputs``; ``longest`` rows and columns of taps in a pass."""
    C, H, W, K, s = workload.C, workload.H, workload.W, workload.K, workload.stride
    rows, columns, pad = workload.out_height, workload.out_width, workload.K // 2
    down, across = -(-rows // outputs), -(-columns // outputs)
    blocks, passes = workload.B * C * down * across, -(-K // longest)
    chunk = -(-K // passes)
    span, each = (outputs - 1) * s + chunk, -(-outputs // SIDE)
    loads = -(-span // SIDE)
    block, thread, shared = frames(kind)

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer(workload.input_shape, "float32"),
        w: T.Buffer(workload.weight_shape, "float32"),
        y: T.Buffer(workload.output_shape, "float32"),
    ):
        T.func_attr({"tirx.noalias": True})
        for b in block(blocks):
            with T.sblock("tile"):
                T.reads(x[0 : workload.B, 0:C, 0:H, 0:W], w[0:C, 0, 0:K, 0:K])
                T.writes(y[0 : workload.B, 0:C, 0:rows, 0:columns])
                tile = T.sblock_alloc_buffer((span, span), "float32", scope=shared)
                part = T.sblock_alloc_buffer((each, SIDE, each, SIDE), "float32", scope="local")
                total = T.sblock_alloc_buffer((each, SIDE, each, SIDE), "float32", scope="local")
                n: T.let[T.int32] = b // (down * across)
                top: T.let[T.int32] = b % (down * across) // across * outputs
                left: T.let[T.int32] = b % across * outputs
                for i in thread(SIDE, "y"):
                    for j in thread(SIDE):
                        for r, q in T.grid(each, each):
                            total[r, i, q, j] = T.float32(0)
                for cy, cx in T.grid(passes, passes):
                    for i in thread(SIDE, "y"):
                        for j in thread(SIDE):
                            for r, q in T.grid(loads, loads):
                                u: T.let[T.int32] = r * SIDE + i
                                v: T.let[T.int32] = q * SIDE + j
                                h: T.let[T.int32] = top * s + cy * chunk + u - pad
                                k: T.let[T.int32] = left * s + cx * chunk + v - pad
                                if u < span and v < span:
                                    tile[u, v] = T.if_then_else(
                                        0 <= h and h < H and 0 <= k and k < W,
                                        x[n // C, n % C, h, k],
                                        T.float32(0),
                                    )
                    for i in thread(SIDE, "y"):
                        for j in thread(SIDE):
                            if i < outputs and j < outputs:
                                for r, q in T.grid(each, each):
                                    part[r, i, q, j] = T.float32(0)
                                for ky in range(T.min(chunk, K - cy * chunk)):
                                    for kx in range(T.min(chunk, K - cx * chunk)):
                                        for r in T.unroll(each):
                                            for q in T.unroll(each):
                                                part[r, i, q, j] = (
                                                    part[r, i, q, j]
                                                    + tile[
                                                        (r * SIDE + i) * s + ky,
                                                        (q * SIDE + j) * s + kx,
                                                    ]
                                                    * w[n % C, 0, cy * chunk + ky, cx * chunk + kx]
                                                )
                                for r, q in T.grid(each, each):
                                    total[r, i, q, j] = total[r, i, q, j] + part[r, i, q, j]
                for i in thread(SIDE, "y"):
                    for j in thread(SIDE):
                        for r, q in T.grid(each, each):
                            u: T.let[T.int32] = r * SIDE + i
                            v: T.let[T.int32] = q * SIDE + j
                            if u < outputs and v < outputs:
                                if top + u < rows and left + v < columns:
                                    y[n // C, n % C, top + u, left + v] = total[r, i, q, j]

    return Schedule(main)
