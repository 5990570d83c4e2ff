"""Whether a program takes its workload's arguments, and what it takes beside them."""

from __future__ import annotations

from typing import Any

from templates.workload import Workload
from tuner.library.workspace import FUNCTION


def workspace(module: Any, workload: Workload) -> int:
    """How many elements of workspace the module's ``main`` takes behind the workload's arguments: a
    parameter in one dimension of float32. The module is given a function that says so, by which
    its library is known to need it. Raises ValueError if the parameters are others."""
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
    """A function of nothing."""
    from tvm import ir, tirx
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as build

    with IRBuilder() as builder, build.prim_func(s_tir=True):
        build.func_name(FUNCTION)
        build.func_ret(ir.PrimType("int64"))
        build.Return(tirx.const(value, "int64"))
    return builder.get()
