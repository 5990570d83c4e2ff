"""Who is a finalist, and who wins where not all of them hold. Builder and runner are stand-ins that
say what the real ones would of each library."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from tests.tuner.measure.planted import Planted
from tuner.device import Device
from tuner.errors import ChildError, NothingWorked
from tuner.final import CLOSE, MOST, Winner, decide, finalists
from tuner.measure.compile import BuildOrder, Built
from tuner.measure.finals import Entry, Finals
from tuner.measure.trial import Measured
from tuner.plan import Plan

TIMES = {
    "finalist 0": 9.0,
    "finalist 1": 5.0,
    "default": 7.0,
    "naive": 40.0,
    "numpy.convolve": 20.0,
    "metaschedule": 15.0,
}
CHOSEN = [Planted().config("right"), Planted().config("partial")]


class Builder:
    def __init__(self, failing: str = "") -> None:
        self._failing = failing

    def submit(self, order: BuildOrder) -> Future[Built]:
        future: Future[Built] = Future()
        if self._failing and self._failing in order.library.name:
            future.set_result(Built("build_error", order, error="no such register"))
        else:
            order.library.write_text(order.library.stem)
            future.set_result(Built("ok", order))
        return future


class Runner:
    """``broken`` are wrong when they are loaded once more."""

    def __init__(self, *broken: str, dropped: dict[str, str] | None = None) -> None:
        self._broken, self._dropped = broken, dropped or {}

    def submit(self, library: Path) -> Future[Measured]:
        future: Future[Measured] = Future()
        future.set_result(Measured("ok", timing={"warm": {"median_us": 1.0}}))
        return future

    def verify(self, library: Path) -> float:
        if library.stem.removeprefix("final-").replace("-", " ") in self._broken:
            raise ChildError("WrongAnswer: error 1 on normal input")
        return 2e-7

    def finals(self, libraries: dict[str, Path]) -> Finals:
        entries = {
            name: Entry(name, {"warm": {"median_us": time}}, 1e-7)
            for name, time in TIMES.items()
            if name not in self._dropped and (name in libraries or "." in name)
        }
        entries["empty"] = Entry("empty", {"warm": {"median_us": 0.1}}, None)
        return Finals(entries, self._dropped, {})


def decided(
    folder: Path, runner: Runner, builder: Any = None, beside: dict[str, Built] | None = None
) -> Winner:
    limits = DeviceLimits(kind="cpu", arch="znver4", units=2)
    device = Device("cpu", "a CPU", "znver4", 2**34, "Linux", limits, {"kind": "llvm"})
    plan = Plan(Conv1dWorkload(M=64, N=8), device, "grid", 1, among=[Planted()])
    given: Any = builder or Builder(), runner
    return decide(plan, *given, folder, CHOSEN, beside or {})


def test_finalists_are_those_close_to_the_fastest() -> None:
    times = [10.0, 30.0, 10.0 * CLOSE, 10.0 * CLOSE + 0.01, 10.5]
    trials = [({"n": n}, time) for n, time in enumerate(times)]
    assert [config["n"] for config in finalists(trials)] == [0, 4, 2]
    assert finalists([]) == []


def test_finalists_are_few() -> None:
    assert len(finalists([({"n": n}, 1.0) for n in range(100)])) == MOST


def test_the_fastest_of_the_round_wins_and_the_rest_are_its_baselines(tmp_path: Path) -> None:
    winner = decided(tmp_path, Runner())
    assert (winner.config, winner.time_us, winner.max_error) == (CHOSEN[1], 5.0, 2e-7)
    assert winner.library == b"final-finalist-1"
    assert winner.empty_us == winner.timing["empty_us"] == 0.1
    compared = [(each["name"], each["time_us"], each["speedup"]) for each in winner.baselines]
    assert compared == [("default", 7.0, 1.4), ("numpy.convolve", 20.0, 4.0), ("naive", 40.0, 8.0)]


def test_what_was_searched_beside_the_job_is_a_baseline_and_never_wins(tmp_path: Path) -> None:
    order = BuildOrder("", "", None, {}, tmp_path / "metaschedule.so")
    failed = Built("build_error", order, error="none")
    beside = {"metaschedule": Built("ok", order), "other": failed}
    winner = decided(tmp_path, Runner(), beside=beside)
    rows = {each["name"]: (each["time_us"], each["error"]) for each in winner.baselines}
    assert rows["metaschedule"] == (15.0, None)
    assert rows["other"] == (None, "none")
    slow = Runner("finalist 0", "finalist 1", "default")
    with pytest.raises(NothingWorked):
        decided(tmp_path, slow, beside=beside)


def test_one_that_is_wrong_from_disk_gives_way_to_the_next(tmp_path: Path) -> None:
    winner = decided(tmp_path, Runner("finalist 1"))
    assert (winner.config, winner.time_us) == (Planted().config("right"), 7.0)
    assert winner.library == b"final-default"
    assert decided(tmp_path, Runner("finalist 1", "default")).config == CHOSEN[0]


def test_one_that_can_not_be_built_again_takes_no_part(tmp_path: Path) -> None:
    assert decided(tmp_path, Runner(), Builder("finalist-1")).time_us == 7.0


def test_where_none_holds_the_reason_names_them(tmp_path: Path) -> None:
    runner = Runner("finalist 0", "default", dropped={"finalist 1": "error 2", "naive": "error 3"})
    with pytest.raises(NothingWorked) as raised:
        decided(tmp_path, runner)
    assert "finalist 1: error 2; default: WrongAnswer: error 1" in str(raised.value)
    assert "naive" not in str(raised.value)


def test_without_the_empty_program_there_is_no_round(tmp_path: Path) -> None:
    with pytest.raises(NothingWorked, match=r"not even the empty program.*no such register"):
        decided(tmp_path, Runner(), Builder("empty"))
