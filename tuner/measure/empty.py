"""The program that does nothing: its time is the cost of a launch."""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

from templates.workload import Workload


@T.prim_func(s_tir=True)
def _on_cpu(
    x: T.Buffer((1,), "float32"), w: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32")
):
    T.evaluate(0)


@T.prim_func(s_tir=True)
def _on_cuda(
    x: T.Buffer((1,), "float32"), w: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32")
):
    for _ in T.thread_binding(1, thread="blockIdx.x"):
        with T.sblock("empty"):
            T.reads()
            T.writes()
            T.evaluate(T.tvm_storage_sync("shared"))  # a body, or TVM makes no kernel


def empty(workload: Workload, kind: str) -> Schedule:
    """For EMPTY_WORKLOAD only: a conv1d of one sample."""
    return Schedule(_on_cuda if kind == "cuda" else _on_cpu)
