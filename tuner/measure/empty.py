"""The program that does nothing: its time is the cost of a launch."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from templates.workload import Workload


def empty(workload: Workload, kind: str) -> Schedule:
    """For EMPTY_WORKLOAD only: a conv1d of one sample."""
    return Schedule(_program(on_gpu=kind == "cuda"))


def _program(on_gpu: bool) -> Any:
    # not as TVMScript: to parse it takes as long as to compile it
    with IRBuilder() as builder, ir.prim_func(s_tir=True):
        ir.func_name("main")
        for name in ("x", "w", "y"):
            ir.arg(name, ir.buffer((1,), "float32"))
        if on_gpu:
            with (
                ir.sblock("root"),
                ir.thread_binding(0, 1, thread="blockIdx.x"),
                ir.sblock("empty"),
            ):
                ir.reads()
                ir.writes()
                ir.evaluate(ir.tvm_storage_sync("shared"))  # a body, or TVM makes no kernel
        else:
            ir.evaluate(0)
    return builder.get()
