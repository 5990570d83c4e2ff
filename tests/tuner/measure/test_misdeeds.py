"""Candidates that would harm the machine cost a trial each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.measure.misdeeds import (
    MISDEEDS,
    Surroundings,
    check_costs_one_trial,
    surroundings,
)
from tests.tuner.measure.planted import Planted
from tests.tuner.measure.test_confine import calls, files
from tuner import cpu_facts
from tuner.measure.compile import BuildOrder, build, program_of
from tuner.measure.runner import RUN_SECONDS, Runner

pytestmark = [calls, files]

WORKLOAD = Conv1dWorkload(M=100, N=7)
LIMIT = 2.0


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    template, library = Planted(), tmp_path_factory.mktemp("right") / "right.so"
    order = BuildOrder(
        WORKLOAD.key,
        program_of(template),
        template.config("right"),
        cpu_facts.device().target,
        library,
    )
    assert build(order).status == "ok"
    return library


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner(WORKLOAD.key, cpu_facts.device()) as runner:
        yield runner


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    with surroundings(tmp_path) as found:
        yield found


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_it_costs_one_trial(
    runner: Runner, around: Surroundings, misdeed: str, right: Path, tmp_path: Path
) -> None:
    check_costs_one_trial(runner, around, misdeed, right, tmp_path)


def test_a_loop_that_holds_the_interpreter_costs_one_trial(
    around: Surroundings, right: Path, tmp_path: Path
) -> None:
    with Runner(WORKLOAD.key, cpu_facts.device()) as runner:
        assert runner.measure(right).status == "ok"
        runner._timeout = LIMIT
        measured = runner.measure(around.library("hang", tmp_path))
        assert (measured.status, measured.error) == ("run_timeout", "killed after 2 s")
        runner._timeout = RUN_SECONDS
        assert runner.measure(right).status == "ok"
