"""MetaSchedule's evolution in a child process: its proposals, and its use of the results that it is
told."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import templates
from templates.conv1d.workload import Conv1dWorkload
from templates.records.trace import Trace
from templates.workload import Workload
from tests.tuner.search.few import propose
from tuner.build.builder import COMPILER, Builder
from tuner.build.compile import BuildOrder, program_of
from tuner.compare.runner import Runner
from tuner.device.detect import detect
from tuner.plan.evolution import Setup, search_target
from tuner.process.child import Child

DEVICE = detect("cpu")
WORKLOAD = Conv1dWorkload(M=60, N=5)
Config = dict[str, Any]
Told = Sequence[tuple[Config, float | None]]


class Search:
    """A search in a child process. Each :meth:`begin` starts another one in a new process."""

    def __init__(self) -> None:
        self.child = Child(importing=COMPILER)

    def begin(self, seed: int, told: Told = (), workload: Workload = WORKLOAD) -> list[Config]:
        """Start a search that is told the results ``told``; return its first three proposals."""
        target = json.dumps(search_target(DEVICE))
        self._setup = Setup(workload.key, target, seed, 1)
        self.child.close()
        return self.go_on(told, 3)

    def go_on(self, told: Told, count: int) -> list[Config]:
        return self.child.call(propose, self._setup, told, count, timeout=300)


@pytest.fixture(scope="module")
def search() -> Iterator[Search]:
    made = Search()
    yield made
    made.child.close()


@pytest.fixture(scope="module")
def first(search: Search) -> list[Config]:
    return search.begin(0)


def test_seed_determines_the_proposals_of_metaschedule(search: Search, first: list[Config]) -> None:
    assert search.begin(0) == first
    assert search.begin(2**32 - 1) != first


def test_metaschedule_proposes_no_trace_twice_and_none_that_it_was_told(
    search: Search, first: list[Config]
) -> None:
    """After a worker is lost, a new search is told results that another process has measured. It
    proposes neither those configurations nor any of its own again."""
    told = [(config, 2.0 + place) for place, config in enumerate(first)]
    asked = search.begin(0, [*told[:2], (told[2][0], None)])
    for _ in range(2):
        asked += search.go_on([(config, 5.0) for config in asked[-3:]], 8)
    traces = [config["trace"] for config in [*asked, *(config for config, _ in told)]]
    assert len(traces) == len(set(traces)) == 3 + 2 * 8 + 3


def test_metaschedule_skips_damaged_traces(search: Search) -> None:
    damaged = [(Trace().config(text), 1.0) for text in ("", "[[],[[0,1]]]", "[[3],[]]")]
    assert len(search.begin(3, damaged)) == 3


def test_metaschedule_proposes_nothing_once_its_space_runs_out(search: Search) -> None:
    tiny = Conv1dWorkload(M=1, N=1)
    found = search.begin(4, workload=tiny)
    while more := search.go_on([], 16):
        found += more
    assert len({config["trace"] for config in found}) == len(found) < 1000


def test_proposals_of_metaschedule_build_and_are_right(search: Search, tmp_path: Path) -> None:
    workload = templates.operator("depthwise_conv2d").workload(B=1, C=2, H=6, W=5, K=3)
    proposed = search.begin(5, workload=workload)
    orders = [
        BuildOrder(workload.key, program_of(Trace()), config, DEVICE.target, tmp_path / f"{n}.so")
        for n, config in enumerate(proposed)
    ]
    with Builder(2) as builder, Runner(workload.key, DEVICE, seed=3) as runner:
        for built in [builder.submit(order) for order in orders]:
            assert (built.result().status, built.result().error) == ("ok", None)
            measured = runner.measure(built.result().order.library)
            assert (measured.status, measured.error) == ("ok", None)
