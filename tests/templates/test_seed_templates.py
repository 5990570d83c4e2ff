"""The CUDA templates made from the seed documents: random configurations of random workloads, with
their programs scheduled for a CPU and run there, agree with the reference."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import templates
from templates.template import Template
from templates.workload import Workload
from tests.templates.cases_of import cases_of
from tests.templates.compiled import Compiled
from tests.templates.devices import H200
from tests.templates.shapes import SMALL
from tuner.measure.check import check

BOUNDED = settings(max_examples=8, derandomize=True, deadline=None, database=None)
NAMES = {
    "conv1d": ["blocks", "splits", "strategies"],
    "depthwise_conv2d": ["splits", "strategies"],
}


@dataclass(frozen=True)
class OnCpu:
    """A CUDA template's programs on a CPU, with loops instead of blocks and threads."""

    template: Template[Any]

    def schedule(self, workload: Workload, config: dict[str, Any]) -> Any:
        from tvm.s_tir import Schedule

        module: Any = self.template._schedules_module()
        if self.template.name == "strategies":
            return Schedule(module.computation(workload, config, "llvm"))
        schedule = Schedule(module.computation(workload, config))
        module.schedule(schedule, config, "llvm")
        return schedule


@pytest.mark.parametrize(
    ("operator", "name"), [(operator, name) for operator in SMALL for name in NAMES[operator]]
)
@BOUNDED
@given(data=st.data())
def test_any_seed_configuration_of_a_small_workload_is_right(
    operator: str, name: str, data: st.DataObject
) -> None:
    workload = data.draw(SMALL[operator](plain=name != "blocks"))
    (template,) = (each for each in templates.operator(operator).templates if each.name == name)
    assume(template.applies(workload, H200))
    space = template.space(workload, H200)
    config = space[data.draw(st.integers(0, len(space) - 1))]
    compiled = Compiled(OnCpu(template), workload, config)  # type: ignore[arg-type]
    check(compiled.errors, cases_of(workload), workload.max_error)
