"""The round that decides a job: which finalist wins, what is stored of the others, and what happens
if some of them fail. Builder and runner are stand-ins with scripted results."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from db.results.peer_times import PeerTimes
from templates import templates_for
from templates.conv1d.workload import Conv1dWorkload
from templates.depthwise_conv2d.workload import DepthwiseConv2dWorkload
from templates.limits import DeviceLimits
from templates.template import Template
from tests.templates.devices import H200
from tests.tuner.measure.planted import Planted
from tuner.build.compile import BuildOrder, Built
from tuner.compare.comparison import Comparison, Entry
from tuner.compare.measuring import Delivered
from tuner.compare.stage import subject_name
from tuner.device.device import Device
from tuner.errors import NothingWorked
from tuner.job.fastest_builds import FastestBuilds
from tuner.job.final import Decision, Winner, run_final_round, start_known_builds
from tuner.measure.trial import Measured
from tuner.plan.plan import Plan

TIMES = {
    "finalist 0": 9.0,
    "finalist 1": 5.0,
    "default": 7.0,
    "naive": 40.0,
    "numpy.convolve": 20.0,
    "metaschedule": 15.0,
}
WORKLOAD = Conv1dWorkload(M=64, N=8)
LIMITS = DeviceLimits(kind="cpu", arch="znver4", units=2)
CHOSEN = [Planted().config("right"), Planted().config("partial")]


class Builder:
    """A builder that writes a library's name into its file. A build fails if its file's name
    contains ``failing``."""

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
    """A runner with the kernel times of TIMES, in microseconds.

    ``broken`` are the finalists that are wrong when they are loaded again from the delivered file.
    ``delivered`` has the delivered kernels' times that differ from the round's; a call takes 1 µs
    more than its kernel. ``rounds`` lists the finalists and groups of peers that were delivered
    together, ``looked_at`` the libraries that were measured before the round."""

    def __init__(
        self,
        *broken: str,
        dropped: dict[str, str] | None = None,
        delivered: dict[str, float] | None = None,
        load: float = 0.0,
        overtaken: Sequence[str] = (),
    ) -> None:
        self._load, self._overtaken = load, [*overtaken]
        self._broken, self._dropped = set(broken), dropped or {}
        self._delivered = TIMES | (delivered or {})
        self.rounds: list[tuple[list[str], list[str]]] = []
        self.looked_at: list[str] = []

    def submit(self, library: Path) -> Future[Measured]:
        self.looked_at.append(library.stem)
        future: Future[Measured] = Future()
        future.set_result(Measured("ok", timing={"warm": {"median_us": 1.0}}))
        return future

    def compare(
        self,
        libraries: dict[str, Path],
        finalists: Collection[str] = (),
        groups: Sequence[str] = (),
    ) -> Comparison:
        assert set(finalists) <= {*libraries, *self._dropped, "finalist 1"}
        entries = {
            name: entry(name, TIMES[name])
            for name in libraries
            if name in TIMES and name not in self._dropped
        }
        entries["empty"] = entry("empty", 0.1)
        return Comparison(entries, self._dropped, {}, self._load, self._overtaken)

    def deliver(self, delivered: Mapping[str, Delivered], groups: Sequence[str] = ()) -> Comparison:
        self.rounds.append(([*delivered], [*groups]))
        dropped = dict.fromkeys(delivered.keys() & self._broken, "left out: WrongAnswer: error 1")
        entries = [entry("numpy.convolve", 20.0, level="call")] if "host" in groups else []
        for name in delivered.keys() - self._broken:
            path, manifest = delivered[name].library, delivered[name].manifest
            assert path.stem == f"final-{name.replace(' ', '-')}"
            assert manifest["library"]["size"] == len(path.read_bytes())
            time = self._delivered[name]
            entries.append(entry(subject_name(name, "kernel"), time, 2e-7))
            entries.append(entry(subject_name(name, "call"), time + 1, 1e-7, level="call"))
        return Comparison({each.name: each for each in entries}, dropped, {})


def entry(name: str, time: float, error: float = 1e-7, level: str = "kernel") -> Entry:
    warm = {"median_us": time, "p10_us": time, "p90_us": time, "samples": 20}
    return Entry(name, {"warm": warm}, error, level)


def decided(
    folder: Path, runner: Runner, builder: Any = None, beside: dict[str, Built] | None = None
) -> Winner:
    """Return the first winner of :func:`decision`."""
    return decision(folder, runner, builder, beside).winners[0]


def decision(
    folder: Path,
    runner: Runner,
    builder: Any = None,
    beside: dict[str, Built] | None = None,
    template: Template[Any] | None = None,
    chosen: Sequence[dict[str, Any]] = CHOSEN,
    kept: PeerTimes | None = None,
    fastest: FastestBuilds | None = None,
    begun: bool = False,
) -> Decision:
    """Run the final round of a small conv1d with the stand-ins; return its decision."""
    device = Device("cpu", "a CPU", "znver4", 2**34, "Linux", LIMITS, {"kind": "llvm"})
    among = [template or Planted()]
    plan = Plan(WORKLOAD, device, "grid", 1, among=among)
    given: Any = builder or Builder(), runner
    early = start_known_builds(plan, given[0], folder, naive=True) if begun else {}
    return run_final_round(
        plan,
        *given,
        folder,
        chosen,
        beside or {},
        known_peer_times=kept,
        fastest=fastest,
        started_builds=early,
    )


def test_fastest_finalist_wins_and_gets_the_rounds_baselines(tmp_path: Path) -> None:
    runner = Runner()
    winner = decided(tmp_path, runner)
    assert (winner.config, winner.time_us, winner.max_error) == (CHOSEN[1], 5.0, 2e-7)
    assert winner.library == b"final-finalist-1"
    assert winner.empty_us == winner.timing["empty_us"] == 0.1
    compared = [
        (each["name"], each["time_us"], each["speedup"], each["level"]) for each in winner.baselines
    ]
    assert compared == [
        ("default", 7.0, 1.4, "kernel"),
        ("numpy.convolve", 20.0, 20 / 6, "call"),  # compared with the best's call, not its kernel
        ("naive", 40.0, 8.0, "kernel"),
    ]
    assert winner.timing["call"]["median_us"] == 6.0
    assert runner.rounds == [(["finalist 1"], ["host", "pytorch"])]


def test_overtaken_finalist_does_not_win_by_its_few_turns(tmp_path: Path) -> None:
    winner = decided(tmp_path, Runner(overtaken=["finalist 1"]))
    assert winner.time_us == TIMES["default"]


def test_timing_lists_all_finalists_with_their_times(tmp_path: Path) -> None:
    told = decided(tmp_path, Runner()).timing["finalists"]
    assert [(each["name"], each["median_us"]) for each in told] == [
        ("finalist 1", 5.0),
        ("default", 7.0),
        ("finalist 0", 9.0),
        ("naive", 40.0),
    ]
    assert told[0]["config"] == CHOSEN[1]


def test_the_naive_schedule_may_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TIMES, "naive", 1.0)
    winner = decided(tmp_path, Runner())
    assert (winner.config, winner.time_us) == ({"template": "naive"}, 1.0)


def test_a_winner_on_several_threads_is_followed_by_the_fastest_on_one(tmp_path: Path) -> None:
    template = templates_for(WORKLOAD, LIMITS)[0]
    serial = template.default(WORKLOAD, LIMITS)
    parallel = serial | {"threading": "parallel"}
    runner = Runner()
    found = decision(tmp_path, runner, template=template, chosen=[serial, parallel]).winners
    assert [(each.config, each.threads, each.time_us) for each in found] == [
        (parallel, 2, 5.0),
        (serial, 1, 7.0),
    ]
    assert runner.rounds == [(["finalist 1", "default"], ["host", "pytorch"])]
    for each in found:  # either winner may be a user's answer, so both have the peers
        told = {row["name"]: row["speedup"] for row in each.baselines}
        assert told["numpy.convolve"] == 20.0 / (each.time_us + 1)


@pytest.mark.parametrize("as_delivered", [4.0, 5.0])
def test_one_thread_wins_if_several_are_no_faster_as_delivered(
    tmp_path: Path, as_delivered: float
) -> None:
    """The job's first winner must be the best that a look-up of its workload answers."""
    template = templates_for(WORKLOAD, LIMITS)[0]
    serial = template.default(WORKLOAD, LIMITS)
    parallel = serial | {"threading": "parallel"}
    runner = Runner(delivered={"default": as_delivered})
    found = decision(tmp_path, runner, template=template, chosen=[serial, parallel]).winners
    assert [(each.threads, each.time_us) for each in found] == [(1, as_delivered), (2, 5.0)]
    assert found[0].timing["warm"]["median_us"] == as_delivered


def test_a_winner_on_one_thread_is_followed_by_the_fastest_on_several(tmp_path: Path) -> None:
    template = templates_for(WORKLOAD, LIMITS)[0]
    serial = template.default(WORKLOAD, LIMITS)
    parallel = serial | {"threading": "parallel"}
    runner = Runner()
    found = decision(tmp_path, runner, template=template, chosen=[parallel, serial]).winners
    assert [(each.config, each.threads, each.time_us) for each in found] == [
        (serial, 1, 5.0),
        (parallel, 2, 9.0),
    ]
    assert runner.rounds == [(["finalist 1", "finalist 0"], ["host", "pytorch"])]


def test_metaschedules_library_is_a_baseline_and_never_wins(tmp_path: Path) -> None:
    order = BuildOrder("", "", None, {}, tmp_path / "metaschedule.so")
    failed = Built("build_error", order, error="none")
    beside = {"metaschedule": Built("ok", order), "other": failed}
    winner = decided(tmp_path, Runner(), beside=beside)
    rows = {each["name"]: (each["time_us"], each["error"]) for each in winner.baselines}
    assert rows["metaschedule"] == (15.0, None)
    assert rows["other"] == (None, "none")
    slow = Runner("finalist 0", "finalist 1", "default", "naive")
    with pytest.raises(NothingWorked):
        decided(tmp_path, slow, beside=beside)


KEPT_ROW = {
    "name": "numpy.convolve",
    "time_us": 20.0,
    "max_error": 1e-7,
    "error": None,
    "level": "call",
}


def test_decision_has_the_peer_times_that_later_jobs_reuse(tmp_path: Path) -> None:
    beside = {"metaschedule": Built("ok", BuildOrder("", "", None, {}, tmp_path / "meta.so"))}
    found = decision(tmp_path, Runner(), beside=beside)
    assert "metaschedule" in {row["name"] for row in found.winners[0].baselines}
    assert found.peers == [KEPT_ROW]


def test_peer_times_are_not_kept_if_a_peer_failed_for_a_passing_reason(tmp_path: Path) -> None:
    failed = {"scipy.oaconvolve": "MemoryError: 8 GiB"}
    assert decision(tmp_path, Runner(dropped=failed)).peers == []
    lasting = {"scipy.oaconvolve": "TooSlow: a call would take about 2 s; at most 1 is timed"}
    kept = decision(tmp_path, Runner(dropped=lasting)).peers
    assert [row["name"] for row in kept] == ["numpy.convolve", "scipy.oaconvolve"]


def test_peer_times_of_a_noisy_round_are_not_kept(tmp_path: Path) -> None:
    assert decision(tmp_path, Runner(load=1.5)).peers == []


def test_kept_peers_are_not_timed_again(tmp_path: Path) -> None:
    runner, day = Runner(), datetime(2026, 3, 1, tzinfo=UTC)
    slow = {"name": "scipy", "time_us": None, "max_error": None, "error": "TooSlow", "level": None}
    found = decision(tmp_path, runner, kept=PeerTimes([KEPT_ROW, slow], day))
    assert [groups for _, groups in runner.rounds] == [[]]
    assert found.peers == []
    rows = {row["name"]: row for row in found.winners[0].baselines}
    assert list(rows) == ["default", "numpy.convolve", "naive", "scipy"]
    dated = {"measured_at": day.isoformat()}
    # The speedup of a kept peer is over the call that was timed in this round.
    assert rows["numpy.convolve"] == KEPT_ROW | dated | {"speedup": 20 / 6}
    assert rows["scipy"] == slow | dated | {"speedup": None}
    assert "measured_at" not in rows["naive"]


def test_finalist_that_is_wrong_from_disk_loses_to_the_next_fastest(tmp_path: Path) -> None:
    """If the fastest finalist is wrong when its delivered file is loaded, the next fastest wins."""
    winner = decided(tmp_path, Runner("finalist 1"))
    assert (winner.config, winner.time_us) == (Planted().config("right"), 7.0)
    assert winner.library == b"final-default"
    assert decided(tmp_path, Runner("finalist 1", "default")).config == CHOSEN[0]


def test_finalist_that_cannot_be_built_again_takes_no_part(tmp_path: Path) -> None:
    assert decided(tmp_path, Runner(), Builder("finalist-1")).time_us == 7.0


def test_error_gives_each_finalists_reason_if_none_works(tmp_path: Path) -> None:
    runner = Runner("finalist 0", "default", dropped={"finalist 1": "error 2", "naive": "error 3"})
    with pytest.raises(NothingWorked) as raised:
        decided(tmp_path, runner)
    assert "finalist 1: error 2; naive: error 3; default: left out: WrongAnswer: error 1" in str(
        raised.value
    )


def test_round_fails_if_the_empty_program_cannot_be_built(tmp_path: Path) -> None:
    with pytest.raises(NothingWorked, match=r"not even the empty program.*no such register"):
        decided(tmp_path, Runner(), Builder("empty"))


def test_library_kept_by_the_search_is_neither_built_nor_measured_again(tmp_path: Path) -> None:
    class Counting(Builder):
        built: ClassVar[list[str]] = []

        def submit(self, order: BuildOrder) -> Future[Built]:
            self.built.append(order.library.stem)
            return super().submit(order)

    fastest = FastestBuilds(tmp_path)
    library = tmp_path / "7.so"
    library.write_text("as it was measured")
    order = BuildOrder(WORKLOAD.key, "", CHOSEN[1], {}, library)
    fastest.offer(CHOSEN[1], Built("ok", order, source="its source"), 5.0)
    runner = Runner()
    found = decision(tmp_path, runner, Counting(), fastest=fastest, begun=True).winners[0]
    early = ["final-default", "final-naive"]
    assert Counting.built == [*early, "final-empty", "final-finalist-0"]
    assert {*runner.looked_at} == {*early, "final-finalist-0"}
    assert (found.config, found.library) == (CHOSEN[1], b"as it was measured")
    assert found.built.source == "its source"


@pytest.mark.parametrize(("batch", "naive"), [(128, False), (1, True)])
def test_naive_schedule_that_adds_millions_in_sequence_is_left_out(
    batch: int, naive: bool, tmp_path: Path
) -> None:
    layer = {"B": batch, "C": 32, "H": 112, "W": 112, "K": 3, "dtype": "bfloat16"}
    weight = DepthwiseConv2dWorkload.model_validate(layer | {"direction": "backward_weight"})
    target = {"kind": "cuda", "arch": "sm_90"}
    device = Device("cuda", "a GPU", "sm_90", 2**37, "580", H200, target)
    begun = start_known_builds(Plan(weight, device, "grid", 1), Builder(), tmp_path, naive=True)  # type: ignore[arg-type]
    assert ("naive" in begun) == naive
