"""A plan whose search by MetaSchedule fails: if a trial has worked, the job goes on with that
trial; otherwise the reason is raised."""

from contextlib import closing
from dataclasses import replace

import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.records.trace import Trace
from tests.tuner.measure.planted import Planted
from tests.tuner.search import few
from tuner.device.detect import detect
from tuner.errors import NothingWorked
from tuner.plan import traced
from tuner.plan.traced import TracedPlan

WORKLOAD = Conv1dWorkload(M=64, N=8)
DEVICE = replace(detect("cpu"), target={"kind": "nosuch"})
WORKED = (Trace().config("[[],[]]"), 2.5)
OTHER = (Planted().config("right"), 1.5)


def failing() -> TracedPlan:
    """Return a plan whose search fails, as its device's target does not exist."""
    return TracedPlan(WORKLOAD, DEVICE, 1, 1, [Planted()], lambda: None)


@pytest.mark.parametrize("told", [[], [OTHER], [(WORKED[0], None)]])
def test_failed_search_raises_its_reason_if_none_of_its_traces_worked(
    told: list[tuple[dict[str, str], float | None]],
) -> None:
    plan = failing()
    plan.tell(told)
    with pytest.raises(NothingWorked, match=r"MetaSchedule's search failed: .*nosuch"):
        plan.ask(3)
    plan.close()


def test_traced_plan_proposes_no_trace_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced, "propose", few.propose)
    plan = TracedPlan(WORKLOAD, detect("cpu"), 1, 1, [Planted()], lambda: None)
    with closing(plan):
        proposed: list[str] = []
        for _ in range(3):
            asked = plan.ask(2)
            plan.tell([(config, 2.5) for config in asked])
            proposed += [config["trace"] for config in asked]
    assert len(set(proposed)) == len(proposed) == 6


def test_failed_search_proposes_nothing_more_if_one_of_its_traces_worked() -> None:
    plan = failing()
    plan.tell([OTHER, WORKED])
    assert plan.ask(0) == []
    assert plan.ask(3) == []
    assert plan.ask(3) == []
    assert plan.size is None
    plan.close()
