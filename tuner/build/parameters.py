"""Checking a program's parameters against its workload's arguments, and finding its workspace."""

from __future__ import annotations

from typing import Any

from templates.workload import Workload
from tuner.library.workspace import FUNCTION


def workspace(module: Any, workload: Workload) -> int:
    """Return how many float32 elements of workspace the module's ``main`` takes; 0 if it takes
    none.

    The workspace is a parameter after the workload's arguments and has one dimension. If there is
    one, the module gets a function that returns the number of its elements, so that the compiled
    library says how much it needs. Raises ValueError if the parameters are not the workload's
    arguments.
    """
    kinds = [parameter.ty for parameter in module["main"].params]
    found = [(tuple(map(int, kind.shape)), str(kind.dtype)) for kind in kinds]
    wanted = [(argument.shape, argument.dtype) for argument in workload.arguments]
    beside = found[len(wanted) :]
    if found[: len(wanted)] != wanted or len(beside) > 1:
        raise ValueError(f"the program takes {found}, and its workload's arguments are {wanted}")
    if not beside:
        return 0
    ((shape, dtype),) = beside
    if len(shape) != 1 or dtype != "float32":
        raise ValueError(
            f"a workspace has one dimension and is float32, but the program's is {beside[0]}"
        )
    module[FUNCTION] = _constant(shape[0])
    return shape[0]


def _constant(value: int) -> Any:
    """Return a TIR function without parameters that returns ``value``."""
    from tvm import ir, tirx
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as build

    with IRBuilder() as builder, build.prim_func(s_tir=True):
        build.func_name(FUNCTION)
        build.func_ret(ir.PrimType("int64"))
        build.Return(tirx.const(value, "int64"))
    return builder.get()
