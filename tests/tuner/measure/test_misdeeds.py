"""A candidate that tries to harm the machine fails, and costs the job one trial."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.measure.misdeeds import (
    MISDEEDS,
    Surroundings,
    check_costs_one_trial,
    surroundings,
)
from tests.tuner.measure.planted import Planted
from tests.tuner.process.test_confine import calls, files
from tuner.build.compile import BuildOrder, build, program_of
from tuner.compare.runner import RUN_SECONDS, Runner
from tuner.device import cpu_facts
from tuner.settings import Settings

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
    assert build(order, Settings().build_cache).status == "ok"
    return library


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner(WORKLOAD.key, cpu_facts.device()) as runner:
        yield runner


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    """Yield the surroundings that a misdeed must not harm."""
    with surroundings(tmp_path) as found:
        yield found


@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_misdeed_costs_one_trial(
    runner: Runner, around: Surroundings, misdeed: str, right: Path, tmp_path: Path
) -> None:
    check_costs_one_trial(runner, around, misdeed, right, tmp_path)


def test_endless_loop_with_the_interpreters_lock_costs_one_trial(
    around: Surroundings, right: Path, tmp_path: Path
) -> None:
    with Runner(WORKLOAD.key, cpu_facts.device()) as runner:
        assert runner.measure(right).status == "ok"
        runner._timeout = LIMIT
        measured = runner.measure(around.library("hang", tmp_path))
        assert (measured.status, measured.error) == ("run_timeout", "killed after 2 s")
        runner._timeout = RUN_SECONDS
        assert runner.measure(right).status == "ok"


def shell(touched: Path) -> bytes:
    """Return a pickle that, if it is loaded, runs a shell that creates the file ``touched``."""

    class Shell:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.system, (f"touch {touched}",)

    return pickle.dumps((True, Shell()))


@pytest.mark.parametrize("misdeed", ["answer", "answer_and_hang", "answer_on"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"SHELL", "Invalid JSON"),
        (b"[[[[[[[[", "Invalid JSON"),
        (b'[2, true, {"status": "splendid"}]', "'ok'"),
        (b'[2, true, {"status": "ok"}]', "ok without a time"),
        (b'[2, true, {"status": "ok", "timing": {"warm": {"median_us": NaN}}}]', "finite"),
        (b'[2, true, {"status": "run_error", "error": "%b"}]' % (b"x" * 20_000), "10000"),
        (b"[" + bytes(1_200_000), "1200001 bytes, but at most 1048576 are read"),
    ],
    ids=["pickle", "json", "status", "no time", "nan", "long error", "long"],
)
def test_forged_answer_costs_one_trial(
    runner: Runner,
    around: Surroundings,
    misdeed: str,
    text: bytes,
    says: str,
    right: Path,
    tmp_path: Path,
) -> None:
    touched = tmp_path / "touched"
    spoken = shell(touched) if text == b"SHELL" else text
    assert runner.measure(right).status == "ok"
    measured = runner.measure(around.library(misdeed, tmp_path, spoken))
    assert (measured.status, measured.timing) == ("run_error", {})
    assert "killed because its answer is invalid" in (measured.error or "")
    around.check_unharmed()
    assert not touched.exists()
    assert runner.measure(right).status == "ok"
