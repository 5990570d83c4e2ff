"""Every rung of the ladders is right on odd shapes on a CPU and becomes a cubin that fits a GPU."""

import importlib
import re
from dataclasses import dataclass
from typing import Any

import pytest

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.rung import Rung
from templates.workload import Workload
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.cuda_source import cubin, declared, registers_and_stack, source
from tests.templates.devices import H200, T4
from tuner.measure.check import check

ALL = [rung for operator in templates.operators() for rung in operator.rungs]
RUNGS = [rung for rung in ALL if not rung.trials]  # rungs that search are tested as templates
ODD: dict[str, list[Workload]] = {
    "conv1d": [
        Conv1dWorkload(M=1, N=1),
        Conv1dWorkload(M=397, N=61, mode="same", kind="correlate"),
        Conv1dWorkload(M=631, N=631, mode="valid"),
        Conv1dWorkload(M=2503, N=2053),
    ],
    "depthwise_conv2d": [
        DepthwiseConv2dWorkload(B=1, C=1, H=1, W=1, K=1),
        DepthwiseConv2dWorkload(B=2, C=3, H=17, W=37, K=11, stride=2),
        DepthwiseConv2dWorkload(B=1, C=1, H=1, W=5, K=63),
        DepthwiseConv2dWorkload(B=1, C=2, H=43, W=35, K=51),
    ],
}


@dataclass(frozen=True)
class AsTemplate:
    """A rung with a template's ``schedule()``, so that ``Compiled`` and ``source()`` take it."""

    rung: Rung
    kind: str

    def schedule(self, workload: Workload, config: Any) -> Any:
        return self.rung.schedule(workload, self.kind)


def of(rung: Rung) -> str:
    """Return the name of the operator that a rung computes."""
    return rung.document.workload.operator


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: f"{of(rung)} {rung.name}")
def test_a_rung_is_right_on_odd_shapes(rung: Rung) -> None:
    template: Any = AsTemplate(rung, "llvm")
    for workload in ODD[of(rung)]:
        check(Compiled(template, workload, {}).errors, cases_of(workload), workload.max_error)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: f"{of(rung)} {rung.name}")
def test_a_rung_compiles_to_cubins_that_fit_the_device(rung: Rung) -> None:
    template: Any = AsTemplate(rung, "cuda")
    for limits, workload in ((T4, rung.document.workload), (H200, ODD[of(rung)][-1])):
        text = source(template, workload, {}, limits)
        found = declared(text)
        registers, stack = registers_and_stack(cubin(text, limits.arch))
        assert max(found.threads) <= limits.threads_per_block
        assert found.shared_bytes <= limits.shared_memory_per_block
        assert max(found.threads) * registers <= limits.registers_per_unit
        assert stack == 0


WIDE = [
    DepthwiseConv2dWorkload(B=1, C=70_001, H=1, W=3, K=3),
    DepthwiseConv2dWorkload(B=1, C=1, H=70_001, W=2, K=3),
]


@pytest.mark.parametrize("name", ["003 v1", "003 v2", "003 v4"])
def test_the_second_axis_of_a_grid_ends_at_65535(name: str) -> None:
    (rung,) = (rung for rung in RUNGS if rung.name == name)
    for workload in WIDE:
        script = rung.schedule(workload, "cuda").mod.script()
        bound = re.findall(r'thread_binding\((\d+), thread="(\S+)"\)', script)
        extents = {thread: int(extent) for extent, thread in bound}
        assert extents.pop("blockIdx.x") < 2**31
        assert extents
        assert max(extents.values()) <= 65_535


def test_rungs_have_distinct_names_and_programs_that_exist() -> None:
    names = [(of(rung), rung.name) for rung in ALL]
    assert len(set(names)) == len(names)
    for rung in ALL:
        module, name = rung.program.split(":")
        assert callable(getattr(importlib.import_module(module), name))
        assert rung.name.startswith(rung.document.number)
        assert rung.adds


def test_template_of_a_searching_rung_serves_the_shape_of_its_document() -> None:
    searched = {f"{of(rung)} {rung.name}": rung for rung in ALL if rung.trials}
    sizes = {}
    for name, rung in searched.items():
        template, workload = rung.template(), rung.document.workload
        known = {type(each) for each in templates.operator(of(rung)).templates}
        assert type(template) in known
        assert template.applies(workload, T4)
        sizes[name] = len(template.space(workload, T4))
    assert sizes == {"conv1d 000 AutoTVM": 1440, "depthwise_conv2d 003 AutoTVM": 2880}


def test_steps_of_a_rung_include_multiply_adds_that_a_guard_skips() -> None:
    first, second = templates.operator("conv1d").rungs[:2]
    workload = Conv1dWorkload(M=100, N=10)
    assert first.steps(workload) == 109 * 109
    assert second.steps(workload) == 109 * 10 == workload.flops // 2
