"""The ladders' baseline, the unscheduled program: right on a CPU, and a cubin without a stack."""

import importlib
from dataclasses import dataclass
from typing import Any

import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.workload import Workload
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.cuda_source import cubin, declared, registers_and_stack, source
from tests.templates.devices import T4
from tuner.measure.check import check

WORKLOADS = [
    Conv1dWorkload(M=1, N=1),
    Conv1dWorkload(M=397, N=61, mode="same", kind="correlate"),
    Conv1dWorkload(M=397, N=61, mode="same", kind="correlate", dtype="float16"),
    DepthwiseConv2dWorkload(B=2, C=3, H=17, W=37, K=11, stride=2),
    DepthwiseConv2dWorkload(B=2, C=3, H=17, W=37, K=11, stride=2, dtype="float16"),
    DepthwiseConv2dWorkload(B=1, C=1, H=1, W=1, K=1, dtype="float16"),
]


@dataclass(frozen=True)
class AsTemplate:
    """The baseline with a template's ``schedule()``, so that ``Compiled`` and ``source()`` take
    it."""

    kind: str

    def schedule(self, workload: Workload, config: Any) -> Any:
        room = importlib.import_module(f"templates.{workload.operator}.ladder.baseline")
        return room.naive(workload, self.kind)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_naive_program_is_right_on_a_cpu(workload: Workload) -> None:
    naive: Any = AsTemplate("llvm")
    check(Compiled(naive, workload, {}).errors, cases_of(workload), workload.max_error)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.key)
def test_naive_program_compiles_for_a_gpu_without_a_stack(workload: Workload) -> None:
    naive: Any = AsTemplate("cuda")
    text = source(naive, workload, {}, T4)
    assert max(declared(text).threads) <= 256
    assert registers_and_stack(cubin(text, T4.arch))[1] == 0
