"""The empty program, which does nothing: its time is the cost of a launch."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir

from templates.kernels.launches.early_launch import LAUNCHES_WAIT, wait_for_launch
from templates.workload import Workload


def empty(workload: Workload, kind: str) -> Schedule:
    """Return the schedule of the empty program for a kind of target.

    ``workload`` must be EMPTY_WORKLOAD, a conv1d of one sample, because the program is written for
    its arguments.
    """
    return Schedule(_program(on_gpu=kind == "cuda"))


def _program(on_gpu: bool) -> Any:
    # built without TVMScript, which takes as long to parse as the program takes to compile
    with IRBuilder() as builder, ir.prim_func(s_tir=True):
        ir.func_name("main")
        if on_gpu:
            ir.func_attr({LAUNCHES_WAIT: True})
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
                # without a statement in its body TVM makes no kernel
                wait_for_launch()
        else:
            ir.evaluate(0)
    return builder.get()
