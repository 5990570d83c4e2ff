"""The programs of :mod:`tests.tuner.measure.planted`. TVMScript evaluates the annotations in its
source, so this file must not postpone them by ``from __future__ import annotations``."""

from typing import Any

from tvm.script import tirx as T  # noqa: N812  # as TVM writes it

from templates.conv1d.workload import Conv1dWorkload

CALLED = {"crash": "abort", "hang": "pause", "slow": "usleep"}
"""The C library's function that a behaviour calls, with SLOW_US, before it computes."""
SLOW_US = 20_000
"""The time that ``slow`` sleeps, in microseconds. ``abort`` and ``pause`` ignore it."""


def program(workload: Conv1dWorkload, behaviour: str) -> Any:
    """Return a naive convolution that fails in the way that ``behaviour`` says."""
    M, N, L, left = workload.M, workload.N, workload.length, workload.left
    flip = workload.kind == "convolve"
    called, calls = CALLED.get(behaviour, "abort"), int(behaviour in CALLED)
    written = L - 1 if behaviour == "partial" else L
    added = 1.0 if behaviour == "wrong" else 0.0

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((M,), "float32"), w: T.Buffer((N,), "float32"), y: T.Buffer((L,), "float32")
    ):
        with T.sblock("root"):
            for _ in range(calls):
                T.evaluate(T.call_extern("int32", called, SLOW_US))
            for i in range(written):
                with T.sblock("y"):
                    vi = T.axis.spatial(written, i)
                    y[vi] = T.float32(added)
                    for t in range(N):
                        if vi + t >= left and vi + t < M + left:
                            y[vi] = y[vi] + x[vi + t - left] * w[N - 1 - t if flip else t]

    return main
