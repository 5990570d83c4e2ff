"""What failed or is wrong stands beside a best as such, and never hides."""

from concurrent.futures import Future
from datetime import UTC, datetime
from io import StringIO
from itertools import pairwise
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from templates.conv1d.workload import Conv1dWorkload
from tuner.errors import ChildCrashed
from tuner.final import _baselines, _round
from tuner.measure import finals as round_
from tuner.measure.clock import interleaved
from tuner.measure.finals import Entry, Finals
from tuner.measure.kernel import Kernel
from tuner.measure.trial import Measured, RunOrder, write_cases
from tuner.report import show_best


def entry(name: str, time: float, error: float | None) -> Entry:
    return Entry(name, {"warm": {"median_us": time}}, error)


ENTRIES = [
    entry("finalist 0", 2.0, 1e-7),
    entry("empty", 1.0, None),
    entry("naive", 40.0, 1e-7),
    entry("quick and wrong", 1.0, 3e-4),
    entry("all NaN", 3.0, nan),
    entry("right", 4.0, 1e-5),
]
FINALS = Finals(
    {each.name: each for each in ENTRIES},
    {"finalist 1": "error 2", "default": "error 1", "cupy": "ImportError: [libcudart]\nread on"},
    {},
)


def test_the_wrong_and_the_failed_are_listed_as_such() -> None:
    rows = {row["name"]: row for row in _baselines(FINALS, 2.0, 1e-5)}
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
    }


def test_a_nan_is_wrong_and_can_be_stored_as_json() -> None:
    row = next(row for row in _baselines(FINALS, 2.0, 1e-5) if row["name"] == "all NaN")
    assert (row["max_error"], row["error"]) == (None, "wrong: error nan, allowed 1e-05")


def test_people_are_told_too() -> None:
    best: Any = SimpleNamespace(
        operator="conv1d",
        device=SimpleNamespace(name="a GPU", arch="sm_90"),
        config={"template": "direct"},
        time_us=2.0,
        max_error=1e-7,
        baselines=[*_baselines(FINALS, 2.0, 1e-5), {"name": "old", "time_us": 9.0, "speedup": 4.5}],
        timing={},
        gflops=1.0,
        tuned_at=datetime.now(UTC),
    )
    written = StringIO()
    show_best(best, Console(width=100, file=written))
    lines = {line.split("  ")[0].strip(): line for line in written.getvalue().splitlines()}
    assert lines["quick and wrong"].split() == [
        *("quick", "and", "wrong", "1.00", "0.5", "3.0e-04"),
        *("wrong:", "error", "0.0003,", "allowed", "1e-05"),
    ]
    assert lines["cupy"].split() == ["cupy", "ImportError:", "[libcudart]"]
    assert lines["right"].split() == ["right", "4.00", "2.0", "1.0e-05"]
    assert lines["old"].split() == ["old", "9.00", "4.5"]


class Runner:
    """Its rounds crash while one of the libraries or peers is in them that do."""

    def __init__(self, *crashing: str) -> None:
        self._crashing = crashing

    def submit(self, library: Path) -> Future[Measured]:
        failed = library.name in self._crashing
        future: Future[Measured] = Future()
        timing = {"warm": {"median_us": 1.0}}
        status = "run_error" if failed else "ok"
        future.set_result(Measured(status, error="signal 11", timing=timing))
        return future

    def finals(self, given: dict[str, Path], with_peers: bool = True) -> Finals:
        if any(path.name in self._crashing for path in given.values()):
            raise ChildCrashed("signal 11")
        if with_peers and "peer" in self._crashing:
            raise ChildCrashed("signal 11")
        names = [*given, *(["peer"] if with_peers else [])]
        return Finals({name: entry(name, 1.0, 1e-7) for name in names}, {}, {})


LIBRARIES = {name: Path(name) for name in ("empty", "finalist 0", "default")}


@pytest.mark.parametrize(
    ("crashing", "measured", "dropped"),
    [
        ((), {"empty", "finalist 0", "default", "peer"}, set()),
        (("default",), {"empty", "finalist 0", "peer"}, {"default"}),
        (("peer",), {"empty", "finalist 0", "default"}, {"peers"}),
        (("peer", "default"), {"empty", "finalist 0"}, {"peers", "default"}),
    ],
)
def test_what_takes_the_round_down_is_named(
    crashing: tuple[str, ...], measured: set[str], dropped: set[str]
) -> None:
    runner: Any = Runner(*crashing)
    found = _round(runner, LIBRARIES)
    assert (found.entries.keys(), found.dropped.keys()) == (measured, dropped)
    assert all("signal 11" in reason for reason in found.dropped.values())


class Planted:
    seconds = 0.0

    def __init__(self, name: str, stage: str = "") -> None:
        self.name, self._stage = name, stage

    def prepare(self, x: NDArray[np.float32], w: NDArray[np.float32]) -> Kernel:
        self._fail("prepare")
        self._y = np.convolve(x, w) + np.float32(self._stage == "wrong")
        return Kernel(call=lambda: self._fail("call"))

    def output(self) -> NDArray[np.float32]:
        self._fail("output")
        return self._y

    def _fail(self, stage: str) -> None:
        if stage == self._stage:
            raise RuntimeError(f"no {stage} today")


def test_a_peer_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Conv1dWorkload(M=64, N=8)
    write_cases(work.key, tmp_path, 0)
    planted = [Planted(stage or "right", stage) for stage in ("prepare", "output", "call", "wrong")]
    monkeypatch.setattr(round_, "peers", lambda *_: [*planted, Planted("right")])
    order = RunOrder(work.key, tmp_path / "none.so", tmp_path, "cpu", 2**20)
    found = round_.run_finals(order, {})
    assert found.dropped == {
        stage: f"RuntimeError: no {stage} today" for stage in ("prepare", "output", "call")
    }
    assert found.entries.keys() == {"wrong", "right"}
    right, wrong = (found.entries[name].max_error for name in ("right", "wrong"))
    assert right is not None and right < 1e-6
    assert wrong is not None and wrong > 1e-2


class Counting:
    calls = 1

    def __init__(self, seconds: float) -> None:
        self.seconds, self.taken = seconds, 0

    def sample(self) -> float:
        self.taken += 1
        return self.seconds


def test_a_slow_peer_takes_no_rounds_from_the_libraries() -> None:
    samplers = {"library": Counting(1e-4), "slow": Counting(100.0), "quick": Counting(1e-4)}
    warm = round_._rounds(samplers, {"library"})  # type: ignore[arg-type]
    samples = {name: summary["samples"] for name, summary in warm.items()}
    assert samples == {
        "library": round_.ROUNDS,
        "slow": round_.LEAST_ROUNDS,
        "quick": round_.ROUNDS,
    }


@pytest.mark.parametrize("wanted", [1, 3, 7, 10])
def test_fewer_rounds_are_spread_evenly(wanted: int) -> None:
    seen: list[int] = []
    every, some = Counting(1.0), Counting(1.0)
    some.sample = lambda: seen.append(every.taken) or 1.0  # type: ignore
    warm = interleaved({"every": every, "some": some}, 10, {"some": wanted})
    assert (warm["every"]["samples"], warm["some"]["samples"]) == (10, wanted)
    gaps = {b - a for a, b in pairwise(seen[1:])}
    assert gaps <= {10 // wanted, 10 // wanted + 1}
