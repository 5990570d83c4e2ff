"""Which subject of a round takes which turn, and when the round is settled. The processes are
stand-ins with scripted times."""

import random
from collections.abc import Callable, Sequence
from itertools import cycle, pairwise
from typing import Any

import pytest

from tuner.compare import comparison
from tuner.compare.comparison import FEWEST_TURNS, FIRST_TURNS, ROUGH_TURNS, TURNS, Stage, compare
from tuner.compare.stage import Prepared, Subject
from tuner.errors import ChildCrashed
from tuner.measure.clock import Sample


class Process:
    """A stand-in for a child process: each subject's function returns the seconds of its next
    sample, and ``log`` lists the sampled subjects in order."""

    def __init__(self, log: list[str], **times: Callable[[], float]) -> None:
        self._log, self._times = log, times

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float) -> Any:
        if function is comparison.sample:
            [names] = arguments
            self._log += names
            return [Sample(self._times[name]()) for name in names]
        return function(*arguments)


def staged(
    log: list[str], seconds: float = 1e-4, *, peers: bool = False, **times: Callable[[], float]
) -> Stage:
    """Return a stage of prepared subjects, whose samples come from the functions in ``times`` and
    whose calls are expected to take ``seconds``."""
    process: Any = Process(log, **times)
    stage = Stage(process)
    ready = {name: Subject(seconds, 1, "kernel", 1e-7, is_peer=peers) for name in times}
    stage.prepare(lambda: Prepared(ready, {}))
    return stage


def always(seconds: float) -> Callable[[], float]:
    return lambda: seconds


def test_processes_take_turns() -> None:
    log: list[str] = []
    compare([staged(log, a=always(1.0), b=always(2.0)), staged(log, c=always(3.0))])
    assert log == ["a", "b", "c"] * (TURNS + 1)


def test_single_process_is_asked_for_many_turns_at_once() -> None:
    asked: list[Sequence[str]] = []
    stage = staged([], a=always(1.0), b=always(2.0))
    sample = stage.sample
    stage.sample = lambda names: asked.append(names) or sample(names)  # type: ignore
    found = compare([stage])
    turns = FIRST_TURNS + 1, TURNS - FIRST_TURNS
    assert [list(names) for names in asked] == [["a", "b"] * several for several in turns]
    assert (found.entries["a"].time_us, found.entries["b"].time_us) == (1e6, 2e6)


@pytest.mark.parametrize(("seconds", "turns"), [(100.0, FEWEST_TURNS), (0.05, 10), (1e-4, TURNS)])
def test_slow_subject_skips_turns_evenly(seconds: float, turns: int) -> None:
    log: list[str] = []
    found = compare([staged(log, quick=always(1.0)), staged(log, seconds, slow=always(2.0))])
    assert found.entries["slow"].timing["warm"]["samples"] == turns
    assert found.entries["quick"].timing["warm"]["samples"] == TURNS
    places = [i for i, name in enumerate(log) if name == "slow"][1:]
    gaps = [b - a for a, b in pairwise(places)]
    assert max(gaps) - min(gaps) <= 2


def test_round_with_zero_settle_seconds_has_few_turns() -> None:
    log: list[str] = []
    near = staged(log, quick=always(1.0), near=always(1.02))
    found = compare([near, staged(log, 100.0, slow=always(2.0))], ["quick", "near"], 0)
    taken = {name: entry.timing["warm"]["samples"] for name, entry in found.entries.items()}
    assert taken == {"quick": ROUGH_TURNS, "near": ROUGH_TURNS, "slow": FEWEST_TURNS}


def test_close_finalists_take_further_turns() -> None:
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
    assert log.count("a") == log.count("b") == TURNS + 1
    log.clear()
    found = compare(stages, ["a", "b", "far"])
    assert log.count("a") == log.count("b") > TURNS + 1
    taken = {name: entry.timing["warm"]["samples"] for name, entry in found.entries.items()}
    assert taken["a"] == taken["b"] > TURNS


def test_finalist_slower_in_each_of_the_first_turns_drops_out() -> None:
    late = iter([1.0] * (FIRST_TURNS + 1) + [1.2] * TURNS)
    kernels = {"first": lambda: next(late), "second": always(1.1), "third": always(1.3)}
    found = compare([staged([], **kernels, naive=always(40.0))], [*kernels])
    taken = {name: entry.timing["warm"]["samples"] for name, entry in found.entries.items()}
    assert taken == {"first": TURNS, "second": FIRST_TURNS, "third": FIRST_TURNS, "naive": TURNS}
    assert found.overtaken == ["second", "third"]
    assert found.entries["first"].time_us > found.entries["second"].time_us
    assert [entry.name for entry in found.ranked([*kernels])] == ["first", "second", "third"]


def test_finalist_with_few_samples_does_not_drop_out() -> None:
    kernels = {"a": always(1.0), "b": always(1.2)}
    found = compare([staged([], seconds=100.0, **kernels)], [*kernels])
    assert found.entries["b"].timing["warm"]["samples"] == FEWEST_TURNS
    assert found.overtaken == []


def test_far_slower_peer_takes_only_the_first_turns() -> None:
    log: list[str] = []
    beside = staged(log, peers=True, near=always(1.4), far=always(2.0))
    slow = staged(log, seconds=100.0, peers=True, slow=always(9.0))
    compare([staged(log, empty=always(0.1), kernel=always(1.0), call=always(3.0)), beside, slow])
    assert log.count("kernel") == log.count("call") == log.count("near") == TURNS + 1
    assert log.count("far") == FIRST_TURNS + 1
    assert log.count("slow") == FEWEST_TURNS + 1


def test_only_finalists_take_further_turns() -> None:
    random.seed(0)
    log: list[str] = []
    kernels = {name: lambda: random.gauss(1.0, 0.1) for name in ("a", "b")}
    stages = [staged(log, 1e-3, **kernels, peer=always(1.0)), staged(log, beside=always(0.5))]
    compare(stages, ["a", "b"])
    assert log.count("a") == log.count("b") > TURNS + 1
    assert log.count("peer") == log.count("beside") == TURNS + 1


def test_nearly_equal_finalists_take_no_further_turns() -> None:
    log: list[str] = []
    turns = cycle([1.0, 1.002])
    compare([staged(log, a=lambda: next(turns), b=always(1.001))], ["a", "b"])
    assert len(log) == 2 * (TURNS + 1)


def test_process_that_fails_to_prepare_is_dropped_with_its_reason() -> None:
    def crash() -> Prepared:
        raise ChildCrashed("signal 11")

    process: Any = Process([])
    beside = Stage(process)
    beside.prepare_or_drop("peers (host)", crash)
    found = compare([staged([], a=always(1.0)), beside])
    assert found.entries.keys() == {"a"}
    assert found.dropped == {"peers (host)": "left out: signal 11"}
    with pytest.raises(ChildCrashed):
        beside.prepare(crash)
