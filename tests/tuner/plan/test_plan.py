"""A plan: which templates it searches, what it asks for, and what it does with results."""

from pathlib import Path
from typing import Any

import pytest

from db.queue.history import PastTrial
from templates import templates_for
from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from templates.naive import naive_on
from templates.records.trace import Trace
from tests.templates.devices import H200
from tests.tuner.measure.planted import Planted, PlantedBuild
from tuner.build.compile import program
from tuner.device.device import Device
from tuner.errors import NothingWorked, UnknownStrategy
from tuner.plan.plan import Plan

LIMITS = DeviceLimits(kind="cpu", arch="znver4", units=2, vector_bytes=32, cache_bytes=2**25)
DEVICE = Device("cpu", "a CPU", "znver4", 2**34, "Linux", LIMITS, {"kind": "llvm"})
WORKLOAD = Conv1dWorkload(M=64, N=8)
TWO = (Planted(), PlantedBuild())


def plan(strategy: str = "grid", **options: Any) -> Plan:
    return Plan(WORKLOAD, DEVICE, strategy, 1, **options)


def test_space_of_a_plan_is_the_union_of_the_given_templates() -> None:
    assert len(plan(among=TWO).space) == len(Planted.behaviours) + len(PlantedBuild.behaviours)


def test_plan_without_given_templates_uses_those_of_the_workload() -> None:
    made = plan()
    assert set(made.templates) == {"direct"}
    assert made.default() in made.space


def test_template_that_is_not_searched_by_default_can_still_be_built() -> None:
    """A stored best may use a template that is not searched any more; it still takes part in the
    next round, so it must be known and built."""
    gpu = Device("cuda", "a GPU", "sm_90", 2**36, "driver", H200, {"kind": "cuda"})
    made = Plan(WORKLOAD, gpu, "grid", 1)
    by_default = {"direct", "toeplitz", "warpgroup", "registers", "blocks"}
    assert set(made.templates) == {space.template for space in made.space.spaces} == by_default
    (splits,) = (each for each in templates_for(WORKLOAD, H200) if each.name == "splits")
    config = splits.default(WORKLOAD, H200)
    assert config not in made.space
    assert made.knows(config, splits.version)
    assert not made.knows(config | {"threads_x": 31}, splits.version)
    assert program(made.order(config, Path("x.so"))) is type(splits)
    assert config in Plan(WORKLOAD, gpu, "grid", 1, [splits]).space


def test_search_begins_with_the_default_of_each_template() -> None:
    made = plan("xgb", among=TWO)
    defaults = [template.default(WORKLOAD, DEVICE.limits) for template in TWO]
    assert [config for config in made.ask(5) if config in defaults] == defaults


def test_plan_asks_for_no_configuration_twice() -> None:
    made = plan("random", among=TWO)
    asked = [config for _ in range(5) for config in made.ask(3)]
    assert len(asked) == len(made.space) == 10
    assert all(asked.count(config) == 1 for config in asked)


def test_plan_does_not_ask_for_configurations_that_it_was_told() -> None:
    made = plan(among=[Planted()])
    right, wrong = Planted().config("right"), Planted().config("wrong")
    gone = {"template": "planted", "behaviour": "of an older version"}
    made.tell([(right, 1.5), (wrong, None), (gone, 2.5), ({"template": "other"}, 1.0)])
    asked = made.ask(10)
    assert len(asked) == 3
    assert right not in asked
    assert wrong not in asked


def test_trials_of_other_workloads_guide_the_search() -> None:
    """Trials of another workload count if they are of the same template in the same version."""
    made = plan("xgb", among=[Planted()])
    other = Conv1dWorkload(M=65, N=8)
    right, wrong = Planted().config("right"), Planted().config("wrong")
    gone = {"template": "planted", "behaviour": "of another shape"}
    past = [
        PastTrial(1, "planted", 1, right, 2.5),
        PastTrial(2, "planted", 1, gone, 1.5),
        PastTrial(2, "planted", 1, wrong, None),
        PastTrial(3, "planted", 2, wrong, 0.5),
        PastTrial(3, "other", 1, {"template": "other"}, 0.5),
    ]
    assert made.warm_up([(other, past)]) == (2, 3)
    assert right in made.ask(3)
    assert plan("random", among=[Planted()]).warm_up([(other, past)]) == (0, 0)
    assert plan("xgb", among=[Planted()]).warm_up([]) == (0, 0)


def test_build_order_names_the_template_of_its_configuration() -> None:
    made = plan(among=TWO)
    for template in TWO:
        config = template.config("right")
        order = made.order(config, Path("x.so"))
        assert program(order) is type(template)
        assert (order.config, order.workload_key) == (config, WORKLOAD.key)
        assert made.version(config) == template.version


def test_stored_trace_can_be_built_by_a_plan_that_searches_templates() -> None:
    made, trace = plan(among=TWO), Trace()
    config = trace.config("[[],[]]")
    assert made.knows(config, trace.version)
    assert not plan(among=TWO, others=False).knows(config, trace.version)
    assert not made.knows(config, trace.version + 1)
    order = made.order(config, Path("x.so"))
    assert (program(order), made.version(config)) == (Trace, trace.version)
    made.tell([(config, 1.0)])
    assert len(made.ask(20)) == made.size == len(made.space)


def test_plan_knows_a_configuration_only_if_space_and_version_match() -> None:
    made = plan(among=[Planted()])
    right = Planted().config("right")
    assert made.knows(right, Planted.version)
    assert not made.knows(right, Planted.version + 1)
    assert not made.knows(right | {"behaviour": "of an older version"}, Planted.version)
    assert not made.knows({"template": "other"}, 1)


def test_best_of_another_version_competes_if_its_configuration_is_still_valid() -> None:
    made, trace = plan(among=[Planted()]), Trace()
    right = Planted().config("right")
    assert made.competitor(right, Planted.version - 1) == right
    assert made.competitor(right | {"behaviour": "unknown"}, Planted.version - 1) is None
    assert made.competitor({"template": "other"}, 1) is None
    traced = trace.config("[[],[]]")
    assert made.competitor(traced, trace.version) == traced
    assert made.competitor(traced, trace.version - 1) is None


def test_best_without_a_newer_knob_competes_with_the_knobs_first_value() -> None:
    made = plan(among=[Planted()])
    first = made.space[0]
    for name in first.keys() - {"template"}:
        older = {knob: value for knob, value in first.items() if knob != name}
        assert not made.knows(older, Planted.version)
        assert made.competitor(older, Planted.version - 1) == first


def test_plan_raises_the_reason_if_no_template_applies() -> None:
    with pytest.raises(NothingWorked, match=r"no template serves .*conv1d.* on cpu"):
        plan(among=[])


def test_gradient_without_a_template_gets_the_naive_schedule() -> None:
    work = Conv1dWorkload(M=40, N=5, direction="backward_weight")
    made = Plan(work, DEVICE, "xgb", 0, among=[])
    naive = naive_on("cpu").config()
    assert (made.default(), made.ask(9), made.size) == (naive, [naive], 1)
    made.tell([(naive, 3.0)])
    with pytest.raises(NothingWorked, match="backward_weight"):
        Plan(work, DEVICE, "xgb", 0, among=[], others=False)


def test_unknown_strategy_is_refused_by_a_plan() -> None:
    known = "evolutionary, grid, metaschedule, predicted, random, xgb"
    with pytest.raises(UnknownStrategy, match=f"'annealing'; known are: {known}"):
        plan("annealing", among=TWO)
