"""The empty program is compared with the same program in TVMScript."""

from typing import Any

import pytest
import tvm
from tvm.script import tirx as T  # noqa: N812  # as TVMScript is written

from templates.kernels.launches.early_launch import LAUNCHES_WAIT, WAIT_SOURCE
from tuner.build.compile import EMPTY_WORKLOAD
from tuner.measure.empty import empty


def on_cpu() -> Any:
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((1,), "float32"), w: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32")
    ):
        T.evaluate(0)

    return main


def on_cuda() -> Any:
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((1,), "float32"), w: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32")
    ):
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            with T.sblock("empty"):
                T.reads()
                T.writes()
                T.evaluate(T.cuda.func_call("wait_for_launch", source_code=WAIT_SOURCE))

    return main.with_attr(LAUNCHES_WAIT, True)


@pytest.mark.parametrize(("kind", "expected"), [("llvm", on_cpu), ("cuda", on_cuda)])
def test_empty_program_equals_the_same_in_tvmscript(kind: str, expected: Any) -> None:
    """On a CPU the empty program does nothing; on a GPU it launches one block, which waits."""
    (function,) = empty(EMPTY_WORKLOAD, kind).mod.functions.values()
    (same,) = tvm.s_tir.Schedule(expected()).mod.functions.values()
    tvm.ir.assert_structural_equal(function, same)
