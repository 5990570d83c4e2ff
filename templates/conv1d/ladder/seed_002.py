"""The strategies of seed 002, a lecture on tiled convolution, along one dimension: who loads the
halo of a block's tile, and how much each thread does.

Written out in TVMScript: here it is the threads, not the stages, that differ."""

# mypy: ignore-errors
# ruff: noqa: PLR0912, SIM300
# TVMScript is parsed by TVM: its annotations are no types, and it has no chained comparisons

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

from templates.conv1d.chunks import chunk_lengths
from templates.conv1d.workload import Conv1dWorkload
from templates.grid import frames

THREADS = 256
SEVERAL = 4
WIDEST = 129
"""Taps of one pass where the threads cover the halo as well: at least half of them compute."""


def halo_from_global(workload: Conv1dWorkload, kind: str) -> Schedule:
    """The tile in shared memory, one load a thread; the halo is read from global memory."""
    M, N, L, left = workload.M, workload.N, workload.length, workload.left
    first, sign = (N - 1, -1) if workload.kind == "convolve" else (0, 1)
    middle = N // 2
    blocks = -(-L // THREADS)
    chunk, chunks = _passes(chunk_lengths(N, (1,))[0], N)
    block, thread, shared = frames(kind)

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((M,), "float32"), w: T.Buffer((N,), "float32"), y: T.Buffer((L,), "float32")
    ):
        T.func_attr({"tirx.noalias": True})
        for b in block(blocks):
            with T.sblock("tile"):
                T.reads(x[0:M], w[0:N])
                T.writes(y[0:L])
                tile = T.sblock_alloc_buffer((THREADS,), "float32", scope=shared)
                part = T.sblock_alloc_buffer((1,), "float32", scope="local")
                total = T.sblock_alloc_buffer((1,), "float32", scope="local")
                for th in thread(THREADS):
                    tile[th] = T.if_then_else(
                        0 <= b * THREADS + th + middle - left
                        and b * THREADS + th + middle - left < M,
                        x[b * THREADS + th + middle - left],
                        T.float32(0),
                    )
                for th in thread(THREADS):
                    total[0] = T.float32(0)
                    for c in range(chunks):
                        part[0] = T.float32(0)
                        for t in range(T.min(chunk, N - c * chunk)):
                            part[0] = part[0] + w[first + sign * (c * chunk + t)] * T.if_then_else(
                                0 <= th + c * chunk + t - middle
                                and th + c * chunk + t - middle < THREADS,
                                tile[th + c * chunk + t - middle],
                                T.if_then_else(
                                    0 <= b * THREADS + th + c * chunk + t - left
                                    and b * THREADS + th + c * chunk + t - left < M,
                                    x[b * THREADS + th + c * chunk + t - left],
                                    T.float32(0),
                                ),
                            )
                        total[0] = total[0] + part[0]
                    if b * THREADS + th < L:
                        y[b * THREADS + th] = total[0]

    return Schedule(main)


def halo_in_shared_many_loads(workload: Conv1dWorkload, kind: str) -> Schedule:
    """As many threads as outputs; tile and halo in shared memory, some threads load twice."""
    return _tiled(workload, kind, THREADS, chunk_lengths(workload.N, (1,))[0])


def one_load_idle_threads(workload: Conv1dWorkload, kind: str) -> Schedule:
    """As many threads as the tile has inputs, one load each; those over the halo do not compute.
    A kernel of more than 129 taps takes several passes."""
    chunk = min(workload.N, WIDEST)
    return _tiled(workload, kind, THREADS - chunk + 1, chunk)


def several_outputs(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Four outputs a thread, so that a tile has less halo for its size."""
    return _tiled(workload, kind, SEVERAL * THREADS, chunk_lengths(workload.N, (1,))[0])


def _passes(chunk: int, taps: int) -> tuple[int, int]:
    return chunk, -(-taps // chunk)


def _tiled(workload: Conv1dWorkload, kind: str, outputs: int, longest: int) -> Schedule:
    """Blocks of ``outputs`` by THREADS threads; the taps in passes of at most ``longest``, each
    with a tile of its own."""
    M, N, L, left = workload.M, workload.N, workload.length, workload.left
    first, sign = (N - 1, -1) if workload.kind == "convolve" else (0, 1)
    chunk, chunks = _passes(longest, N)
    span, each, blocks = outputs + chunk - 1, -(-outputs // THREADS), -(-L // outputs)
    loads = -(-span // THREADS)
    block, thread, shared = frames(kind)

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((M,), "float32"), w: T.Buffer((N,), "float32"), y: T.Buffer((L,), "float32")
    ):
        T.func_attr({"tirx.noalias": True})
        for b in block(blocks):
            with T.sblock("tile"):
                T.reads(x[0:M], w[0:N])
                T.writes(y[0:L])
                tile = T.sblock_alloc_buffer((span,), "float32", scope=shared)
                part = T.sblock_alloc_buffer((each, THREADS), "float32", scope="local")
                total = T.sblock_alloc_buffer((each, THREADS), "float32", scope="local")
                for th in thread(THREADS):
                    for r in T.unroll(each):
                        total[r, th] = T.float32(0)
                for c in range(chunks):
                    for th in thread(THREADS):
                        for load in range(loads):
                            if load * THREADS + th < span:
                                tile[load * THREADS + th] = T.if_then_else(
                                    left <= b * outputs + c * chunk + load * THREADS + th
                                    and b * outputs + c * chunk + load * THREADS + th < M + left,
                                    x[b * outputs + c * chunk + load * THREADS + th - left],
                                    T.float32(0),
                                )
                    for th in thread(THREADS):
                        if th < outputs:
                            for r in T.unroll(each):
                                part[r, th] = T.float32(0)
                            for t in range(T.min(chunk, N - c * chunk)):
                                for r in T.unroll(each):
                                    part[r, th] = (
                                        part[r, th]
                                        + tile[r * THREADS + th + t]
                                        * w[first + sign * (c * chunk + t)]
                                    )
                            for r in T.unroll(each):
                                total[r, th] = total[r, th] + part[r, th]
                for th in thread(THREADS):
                    for r in T.unroll(each):
                        if r * THREADS + th < outputs and b * outputs + r * THREADS + th < L:
                            y[b * outputs + r * THREADS + th] = total[r, th]

    return Schedule(main)
