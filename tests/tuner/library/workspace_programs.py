"""Programs that have other parameters than their workload's arguments, such as a workspace. They
are in a module because builders' processes import them by name."""

from typing import Any

from tvm import te
from tvm.s_tir import Schedule

from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.parameters import placeholders


def sums(workload: Conv1dWorkload, kind: str) -> Schedule:
    """Return the valid correlation by way of a workspace: its L elements hold the sums, which are
    then copied to the output."""
    return Schedule(_correlation(workload, (workload.length,)))


def two_dimensions(workload: Conv1dWorkload, kind: str) -> Schedule:
    return Schedule(_correlation(workload, (workload.length, 1)))


def another_weight(workload: Conv1dWorkload, kind: str) -> Schedule:
    return Schedule(_correlation(workload.model_copy(update={"N": workload.N + 1}), None))


def _correlation(workload: Conv1dWorkload, workspace: tuple[int, ...] | None) -> Any:
    x, w = placeholders(workload)
    t = te.reduce_axis((0, workload.N), name="t")
    shape = workspace or (workload.length,)
    partial = te.compute(shape, lambda i, *_: te.sum(x[i + t] * w[t], axis=t), name="partial")
    zeros = (0,) * (len(shape) - 1)
    y = te.compute((workload.length,), lambda i: partial[(i, *zeros)], name="y")
    return te.create_prim_func([x, w, y, *([partial] if workspace else [])])
