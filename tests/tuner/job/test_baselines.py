"""The baselines of a best: comparisons are fair, and peers that failed or are wrong are listed as
such, in the answer and in print."""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from io import StringIO
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from templates.conv1d.workload import Conv1dWorkload
from tuner.compare import stage
from tuner.compare.comparison import Comparison, Entry
from tuner.errors import ChildCrashed
from tuner.job.baselines import baseline_rows
from tuner.job.final import _check_and_compare
from tuner.measure.kernel import Kernel
from tuner.measure.trial import Measured, RunOrder, write_cases
from tuner.terminal.report import show_best


def entry(name: str, time: float, error: float | None, level: str = "kernel") -> Entry:
    return Entry(name, {"warm": {"median_us": time}}, error, level)


ROUND = Comparison(
    {
        each.name: each
        for each in (
            entry("finalist 0", 2.0, 1e-7),
            entry("empty", 1.0, None),
            entry("naive", 40.0, 1e-7),
        )
    },
    {"finalist 1": "error 2", "default": "error 1"},
)
PEERS = Comparison(
    {
        each.name: each
        for each in (
            entry("quick and wrong", 1.0, 3e-4),
            entry("all NaN", 3.0, nan, "call"),
            entry("right", 8.0, 1e-5, "call"),
        )
    },
    {"cupy": "ImportError: [libcudart]\nread on"},
)
TIMING = {"warm": {"median_us": 2.0}, "call": {"median_us": 4.0}}


def rows_of_all() -> list[dict[str, Any]]:
    return baseline_rows(ROUND, ROUND.entries["finalist 0"], PEERS, TIMING, 1e-5)


def test_wrong_and_failed_baselines_are_listed_with_their_errors() -> None:
    rows = {row["name"]: row for row in rows_of_all()}
    assert list(rows) == ["quick and wrong", "all NaN", "right", "naive", "default", "cupy"]
    assert rows["quick and wrong"]["error"] == "wrong: error 0.0003, allowed 1e-05"
    assert (rows["quick and wrong"]["time_us"], rows["quick and wrong"]["speedup"]) == (1.0, 0.5)
    assert rows["right"]["error"] is rows["naive"]["error"] is None
    assert rows["cupy"] == {
        "name": "cupy",
        "time_us": None,
        "speedup": None,
        "max_error": None,
        "error": "ImportError: [libcudart]\nread on",
        "level": None,
    }


def test_speedup_compares_calls_with_calls_and_kernels_with_kernels() -> None:
    """A peer's call from Python is compared with the best's call; a kernel with its kernel."""
    rows = {row["name"]: (row["speedup"], row["level"]) for row in rows_of_all()}
    assert rows["right"] == (2.0, "call")
    assert rows["naive"] == (20.0, "kernel")


def test_nan_error_counts_as_wrong_and_is_stored_as_none() -> None:
    row = next(row for row in rows_of_all() if row["name"] == "all NaN")
    assert (row["max_error"], row["error"]) == (None, "wrong: error nan, allowed 1e-05")


def shown(**changes: Any) -> dict[str, str]:
    """Return the printed lines of a best by their first column. ``changes`` replace its fields."""
    facts: dict[str, Any] = {
        "operator": "conv1d",
        "device": SimpleNamespace(kind="cuda", name="a GPU", arch="sm_90"),
        "config": {"template": "direct"},
        "template": "direct",
        "time_us": 2.0,
        "max_error": 1e-7,
        "baselines": [*rows_of_all(), {"name": "old", "time_us": 9.0, "speedup": 4.5}],
        "timing": {},
        "roofline": {"bound": None, "floor_us": None, "fraction": None},
        "gflops": 1.0,
        "search": "xgb",
        "threads": None,
        "tuned_at": datetime.now(UTC),
    }
    best: Any = SimpleNamespace(**facts | changes)
    written = StringIO()
    show_best(best, Console(width=100, file=written))
    return {line.split("  ")[0].strip(): line for line in written.getvalue().splitlines()}


def test_printed_best_lists_baselines_with_errors_and_dates() -> None:
    lines = shown()
    assert lines["quick and wrong"].split() == [
        *("quick", "and", "wrong", "1.00", "0.5", "3.0e-04"),
        *("wrong:", "error", "0.0003,", "allowed", "1e-05"),
    ]
    assert lines["cupy"].split() == ["cupy", "ImportError:", "[libcudart]"]
    assert lines["right"].split() == ["right", "8.00", "2.0", "1.0e-05"]
    assert lines["old"].split() == ["old", "9.00", "4.5"]
    earlier = {"name": "cudnn", "time_us": 9.0, "speedup": 4.5, "measured_at": "2026-03-01T10:00"}
    assert shown(baselines=[earlier])["cudnn"].split() == [
        *("cudnn", "9.00", "4.5", "timed", "2026-03-01")
    ]
    assert not any("was faster" in line for line in lines)


def test_printed_best_names_a_faster_peer_and_a_noisy_machine() -> None:
    noise = {"quiet": False, "reason": "other programs kept 1.0 of 2 CPUs busy; end them"}
    faster = {"name": "pytorch NHWC", "time_us": 1.0, "speedup": 0.5, "level": "call"}
    lines = shown(baselines=[faster], timing={"noise": noise, "call": {"median_us": 2.5}})
    told = "pytorch NHWC was faster: 1.00 µs against 2.50 µs, each called from Python"
    assert f"{told}; call that instead" in lines
    assert f"not a quiet machine: {noise['reason']}" in lines
    assert "call from Python 2.50 µs" in lines


def test_printed_best_explains_the_roofline() -> None:
    near = {"bound": "memory", "floor_us": 1.5, "fraction": 0.75}
    assert "75% of what a GPU allows, which is 1.50 µs, bound by memory" in shown(roofline=near)
    beyond = near | {"floor_us": 3.0, "fraction": 1.5}
    said = "faster than memory allows (3.00 µs): its data is in the cache"
    assert said in shown(roofline=beyond)


class Runner:
    """A runner whose round crashes if one of the ``crashing`` libraries, or a peer called "peer" in
    ``crashing``, takes part."""

    def __init__(self, *crashing: str) -> None:
        self._crashing = crashing

    def submit(self, library: Path) -> Future[Measured]:
        failed = library.name in self._crashing
        future: Future[Measured] = Future()
        timing = {"warm": {"median_us": 1.0}}
        status = "run_error" if failed else "ok"
        future.set_result(Measured(status, error="signal 11", timing=timing))
        return future

    def compare(
        self, given: dict[str, Path], finalists: Collection[str] = (), groups: Sequence[str] = ()
    ) -> Comparison:
        if any(path.name in self._crashing for path in given.values()):
            raise ChildCrashed("signal 11")
        if "device" in groups and "peer" in self._crashing:
            raise ChildCrashed("signal 11")
        names = [*given, *(["peer"] if "device" in groups else [])]
        return Comparison({name: entry(name, 1.0, 1e-7) for name in names}, {})


BUILDS: Any = {
    name: SimpleNamespace(status="ok", order=SimpleNamespace(library=Path(name)))
    for name in ("empty", "finalist 0", "default")
}


@pytest.mark.parametrize(
    ("crashing", "measured", "dropped"),
    [
        ((), {"empty", "finalist 0", "default", "peer"}, set()),
        (("default",), {"empty", "finalist 0", "peer"}, {"default"}),
        (("peer",), {"empty", "finalist 0", "default"}, {"peers"}),
        (("peer", "default"), {"empty", "finalist 0"}, {"peers", "default"}),
    ],
)
def test_library_or_peers_that_would_crash_a_gpus_round_are_dropped(
    crashing: tuple[str, ...], measured: set[str], dropped: set[str]
) -> None:
    runner: Any = Runner(*crashing)
    found = _check_and_compare(runner, BUILDS, {}, {"finalist 0": {}}, ["device"], ())
    assert (found.entries.keys(), found.dropped.keys()) == (measured, dropped)
    assert all("signal 11" in reason for reason in found.dropped.values())


class Planted:
    seconds = 0.0

    def __init__(self, name: str, failing: str = "") -> None:
        self.name, self._failing = name, failing

    def prepare(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> Kernel:
        self._fail("prepare")
        self._y = np.convolve(x, w) + np.float32(self._failing == "wrong")
        return Kernel(call=lambda: self._fail("call"))

    def outputs(self) -> tuple[NDArray[np.float32]]:
        self._fail("output")
        return (self._y,)

    def _fail(self, step: str) -> None:
        if step == self._failing:
            raise RuntimeError(f"no {step} today")


class Slow(Planted):
    def prepare(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> Kernel:
        time.sleep(30)
        return super().prepare(x, w)


class Compiled(Planted):
    """A planted peer that counts its compilations, and may fail in one step."""

    compilations = 0

    def compile(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> None:
        type(self).compilations += 1
        self._fail("compile")
        self._given = x, w

    def kernel(self) -> Kernel:
        return self.prepare(*self._given)


def test_peer_compiled_ahead_is_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that failed to compile ahead is prepared in the round, whatever the reason was."""
    work = Conv1dWorkload(M=64, N=8)
    write_cases(work.key, tmp_path, 0)
    monkeypatch.setattr(Compiled, "compilations", 0)
    listed = [("right", ""), ("not compiled", "compile"), ("fails", "prepare")]
    monkeypatch.setattr(stage, "peers", lambda *_: [Compiled(*each) for each in listed])
    stage.compile_peers(work.key, tmp_path, "cpu", "host")
    assert Compiled.compilations == 3
    order = RunOrder(work.key, tmp_path / "none.so", tmp_path, "cpu", 2**20)
    for _ in range(2):  # the first call uses up what was compiled ahead; the second has nothing
        found = stage.prepare_peers(order, "host")
        assert found.subjects.keys() == {"right", "not compiled"}
        assert found.dropped == {"fails": "RuntimeError: no prepare today"}
    assert Compiled.compilations == 3
    assert stage._compiled == {}


def test_failing_peer_does_not_affect_other_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Conv1dWorkload(M=64, N=8)
    write_cases(work.key, tmp_path, 0)
    planted = [Planted(step or "right", step) for step in ("prepare", "output", "call", "wrong")]
    monkeypatch.setattr(stage, "peers", lambda *_: [*planted, Slow("slow"), Planted("right")])
    monkeypatch.setattr(stage, "PREPARE_SECONDS", 0.5)
    order = RunOrder(work.key, tmp_path / "none.so", tmp_path, "cpu", 2**20)
    found = stage.prepare_peers(order, "host")
    assert found.dropped == {
        step: f"RuntimeError: no {step} today" for step in ("prepare", "output", "call")
    } | {"slow": "TimeoutError: not done after 0.5 s"}
    assert found.subjects.keys() == {"wrong", "right"}
    right, wrong = (found.subjects[name].max_error for name in ("right", "wrong"))
    assert right is not None and right < 1e-6
    assert wrong is not None and wrong > 1e-2
    assert found.subjects["right"].level == "call"
