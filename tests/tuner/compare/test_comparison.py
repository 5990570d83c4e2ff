"""Who takes which turn, and when a round is settled. The processes are stand-ins."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tuner.compare import comparison
from tuner.compare.comparison import FEWEST_TURNS, ROUGH_TURNS, TURNS, Stage, compare
from tuner.compare.stage import Entered, Subject
from tuner.errors import ChildCrashed
from tuner.measure.clock import Sample


class Process:
    """Its subjects take seconds as their functions say; ``log`` keeps who was asked."""

    def __init__(self, log: list[str], **times: Callable[[], float]) -> None:
        self._log, self._times = log, times

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        if function is comparison.sample:
            [names] = arguments
            self._log += names
            return [Sample(self._times[name]()) for name in names]
        return function(*arguments)


def staged(log: list[str], seconds: float = 1e-4, **times: Callable[[], float]) -> Stage:
    process: Any = Process(log, **times)
    stage = Stage(process)
    ready = {name: Subject(seconds, 1, "kernel", 1e-7) for name in times}
    stage.enter(lambda: Entered(ready, {}))
    return stage


def always(seconds: float) -> Callable[[], float]:
    return lambda: seconds


def test_processes_take_turns() -> None:
    log: list[str] = []
    compare([staged(log, a=always(1.0), b=always(2.0)), staged(log, c=always(3.0))])
    assert log == ["a", "b", "c"] * (TURNS + 1)


def test_a_single_process_is_asked_once_for_all_turns() -> None:
    asked: list[Sequence[str]] = []
    stage = staged([], a=always(1.0), b=always(2.0))
    sample = stage.sample
    stage.sample = lambda names: asked.append(names) or sample(names)  # type: ignore
    found = compare([stage])
    assert [list(names) for names in asked] == [["a", "b"] * (TURNS + 1)]
    assert (found.entries["a"].time_us, found.entries["b"].time_us) == (1e6, 2e6)


@pytest.mark.parametrize(("seconds", "turns"), [(100.0, FEWEST_TURNS), (0.05, 10), (1e-4, TURNS)])
def test_a_slow_contestant_sits_turns_out_evenly(seconds: float, turns: int) -> None:
    log: list[str] = []
    found = compare([staged(log, quick=always(1.0)), staged(log, seconds, slow=always(2.0))])
    assert found.entries["slow"].timing["warm"]["samples"] == turns
    assert found.entries["quick"].timing["warm"]["samples"] == TURNS
    places = [i for i, name in enumerate(log) if name == "slow"][1:]
    gaps = [b - a for a, b in pairwise(places)]
    assert max(gaps) - min(gaps) <= 2


def test_a_round_that_need_not_settle_anything_has_few_turns() -> None:
    log: list[str] = []
    near = staged(log, quick=always(1.0), near=always(1.02))
    found = compare([near, staged(log, 100.0, slow=always(2.0))], ["quick", "near"], 0)
    taken = {name: entry.timing["warm"]["samples"] for name, entry in found.entries.items()}
    assert taken == {"quick": ROUGH_TURNS, "near": ROUGH_TURNS, "slow": FEWEST_TURNS}


def test_finalists_that_are_close_take_further_turns() -> None:
    random.seed(0)
    log: list[str] = []
    near = {
        "a": lambda: random.gauss(1.0, 0.1),
        "b": lambda: random.gauss(1.0, 0.1),
        "far": always(9.0),
    }
    stages = [staged(log, seconds=1e-3, **near)]
    compare(stages)
    assert len(log) == 3 * (TURNS + 1)
    log.clear()
    compare(stages, ["a", "far"])
    assert len(log) == 3 * (TURNS + 1)
    log.clear()
    found = compare(stages, ["a", "b", "far"])
    assert len(log) > 3 * (TURNS + 1)
    taken = {name: entry.timing["warm"]["samples"] for name, entry in found.entries.items()}
    assert taken["a"] == taken["b"] > taken["far"] == TURNS


def test_only_what_may_still_be_the_fastest_takes_further_turns() -> None:
    random.seed(0)
    log: list[str] = []
    kernels = {name: lambda: random.gauss(1.0, 0.1) for name in ("a", "b")}
    stages = [staged(log, 1e-3, **kernels, peer=always(1.0)), staged(log, beside=always(0.5))]
    compare(stages, ["a", "b"])
    assert log.count("a") == log.count("b") > TURNS + 1
    assert log.count("peer") == log.count("beside") == TURNS + 1


def test_finalists_that_are_as_good_as_equal_do_not() -> None:
    log: list[str] = []
    compare([staged(log, a=always(1.0), b=always(1.001))], ["a", "b"])
    assert len(log) == 2 * (TURNS + 1)


def test_a_process_that_can_not_enter_is_a_reason() -> None:
    def crash() -> Entered:
        raise ChildCrashed("signal 11")

    process: Any = Process([])
    beside = Stage(process)
    beside.enter_or_drop("peers (host)", crash)
    found = compare([staged([], a=always(1.0)), beside])
    assert found.entries.keys() == {"a"}
    assert found.dropped == {"peers (host)": "left out: signal 11"}
    with pytest.raises(ChildCrashed):
        beside.enter(crash)
