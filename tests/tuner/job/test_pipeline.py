"""The order in which a search's candidates are built and run. Builder and runner are stand-ins, so
that the overlap of builds and runs on a GPU can be tested without one."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from templates.conv1d.workload import Conv1dWorkload
from templates.limits import DeviceLimits
from tests.tuner.measure.planted import Planted
from tuner.build.compile import BuildOrder, Built
from tuner.device.device import Device
from tuner.job.pipeline import BATCH, measured_candidates
from tuner.measure.trial import Measured
from tuner.plan.plan import Plan

SIZE = 40


class Wide(Planted):
    behaviours = tuple(f"right {n}" for n in range(SIZE))


class Builder:
    """A builder that completes each build at once, except that of ``late``, which a test completes.
    The build of "right 1" fails."""

    workers = 2

    def __init__(self, events: list[str], late: str = "") -> None:
        self.events, self.late = events, late
        self.futures: list[Future[Built]] = []

    def submit(self, order: BuildOrder) -> Future[Built]:
        assert order.config is not None
        behaviour = order.config["behaviour"]
        self.events.append(f"build {behaviour}")
        future: Future[Built] = Future()
        if behaviour != self.late:
            order.library.touch()
            failed = behaviour == "right 1"
            future.set_result(Built("build_error" if failed else "ok", order))
        self.futures.append(future)
        return future


class Runner:
    """A runner that measures up to ``max_in_flight`` libraries side by side: all of them complete
    as soon as that many are in flight, or when :meth:`finish` is called."""

    def __init__(self, events: list[str], kind: str, max_in_flight: int = 1) -> None:
        self.events, self.max_in_flight = events, max_in_flight
        self.overlaps_builds = kind == "cuda"
        self.in_flight: list[tuple[Path, Future[Measured]]] = []
        self.most = 0

    def submit(self, library: Path) -> Future[Measured]:
        assert library.exists()
        self.events.append(f"run {library.stem}")
        future: Future[Measured] = Future()
        self.in_flight.append((library, future))
        self.most = max(self.most, sum(not each.done() for _, each in self.in_flight))
        if self.max_in_flight == 1:
            future.set_result(FAST)
        elif self.most >= self.max_in_flight:
            self.finish()
        return future

    def finish(self) -> None:
        """Complete all runs in flight, the last submitted first."""
        for _, future in reversed(self.in_flight):
            if not future.done():
                future.set_result(FAST)


FAST = Measured("ok", timing={"warm": {"median_us": 1.0}})


def plan(kind: Any) -> Plan:
    device = Device(kind, "", "", 0, "", DeviceLimits(kind, "", 2), {"kind": "llvm"})
    return Plan(Conv1dWorkload(M=64, N=8), device, "grid", 1, among=[Wide()])


def run(
    kind: str, folder: Path, wanted: int, builder: Any, runner: Any, **options: Any
) -> list[Any]:
    results: list[Any] = []
    options = {"left": lambda: wanted - len(results), "check": lambda: None} | options
    for config, built, result in measured_candidates(
        plan(kind), builder, runner, folder, **options
    ):
        results.append((config["behaviour"], built.status, result and result.status))
    return results


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_results_come_in_order_and_measured_libraries_are_removed(
    kind: str, tmp_path: Path
) -> None:
    events: list[str] = []
    results = run(kind, tmp_path, 20, Builder(events), Runner(events, kind))
    assert [result[0] for result in results] == [f"right {n}" for n in range(20)]
    assert results[1] == ("right 1", "build_error", None)
    assert results[2] == ("right 2", "ok", "ok")
    # The stand-in writes a library for the failed build too, and only that one is left.
    assert [path.stem for path in tmp_path.iterdir()] == ["1"]
    assert len([event for event in events if event.startswith("build")]) == 20


def ahead(events: list[str]) -> list[int]:
    """Return for each run how many builds had been started by then for later runs."""
    found, built, done = [], 0, 0
    for event in events:
        built += event.startswith("build")
        if event.startswith("run"):
            done = int(event.split()[1]) + 1
            found.append(built - done)
    return found


def test_on_a_cpu_nothing_is_built_while_a_kernel_is_timed(tmp_path: Path) -> None:
    events: list[str] = []
    run("cpu", tmp_path, 20, Builder(events), Runner(events, "cpu"))
    first_of_second_batch = events.index(f"build right {BATCH}")
    assert events[first_of_second_batch - 1] == f"run {BATCH - 1}"


def test_on_a_gpu_the_next_batch_is_built_while_kernels_are_timed(tmp_path: Path) -> None:
    events: list[str] = []
    run("cuda", tmp_path, SIZE, Builder(events), Runner(events, "cuda"))
    assert min(ahead(events)[: SIZE - 2 * BATCH]) >= BATCH - 1


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_library_file_is_kept_until_its_result_is_taken(kind: str, tmp_path: Path) -> None:
    events: list[str] = []
    results = measured_candidates(
        plan(kind), Builder(events), Runner(events, kind), tmp_path,
        left=lambda: 1, check=lambda: None,
    )  # fmt: skip
    for _, (config, built, result) in zip(range(SIZE // 2), results, strict=False):
        there = built.order.library.exists()
        assert there == (result is not None or config["behaviour"] == "right 1")
    results.close()


def test_slow_build_does_not_delay_other_candidates_on_a_gpu(tmp_path: Path) -> None:
    """Other candidates are proposed, built and measured meanwhile; the slow one's result comes
    last."""
    events: list[str] = []
    builder = Builder(events, late="right 3")

    def check() -> None:
        late = builder.futures[3]
        if not late.done():
            order = BuildOrder("", "", None, {}, tmp_path / "3.so")
            late.set_result(Built("build_timeout", order))

    results = run("cuda", tmp_path, SIZE, builder, Runner(events, "cuda"), check=check)
    assert [result[0] for result in results] == [
        f"right {n}" for n in [*(n for n in range(SIZE) if n != 3), 3]
    ]
    assert results[-1][1] == "build_timeout"


def test_waiting_candidates_are_dropped_when_no_more_are_wanted(tmp_path: Path) -> None:
    events: list[str] = []
    builder = Builder(events, late="right 5")
    wanted = iter([20, 20, 0])
    results = run("cuda", tmp_path, 0, builder, Runner(events, "cuda"), left=lambda: next(wanted))
    assert [result[0] for result in results] == ["right 0", "right 1"]
    assert builder.futures[5].cancelled()


class Busy(Runner):
    """A runner that starts each run at once, so that no run can be cancelled."""

    def submit(self, library: Path) -> Future[Measured]:
        future = super().submit(library)
        future.set_running_or_notify_cancel()
        return future


def test_runs_in_flight_end_before_the_pipeline_does(tmp_path: Path) -> None:
    """The pipeline waits for the runs in flight: the round that follows needs the device alone."""
    runner, builder = Busy([], "cuda", max_in_flight=SIZE), Builder([], late="right 0")
    wanted = iter([20, 0])

    def check() -> None:
        if builder.futures[0].done():
            runner.finish()
        else:
            order = BuildOrder("", "", None, {}, tmp_path / "0.so")
            builder.futures[0].set_result(Built("build_error", order))

    run("cuda", tmp_path, 0, builder, runner, left=lambda: next(wanted), check=check)
    assert runner.in_flight
    assert all(future.done() for _, future in runner.in_flight)


@pytest.mark.parametrize(("kind", "runs"), [("cpu", 0), ("cuda", 18)])
def test_a_check_may_end_the_wait_for_a_build(kind: str, runs: int, tmp_path: Path) -> None:
    """The check is called while the pipeline waits for a build. On a CPU no candidate of the batch
    has been run by then; on a GPU all others have, which are 18, as one of the 20 fails to build
    and one is late."""
    events: list[str] = []
    builder = Builder(events, late="right 4")

    def check() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        run(kind, tmp_path, 20, builder, Runner(events, kind), check=check)
    assert builder.futures[4].cancelled()
    assert len([event for event in events if event.startswith("run")]) == runs


class Starved(Builder):
    """A builder whose sixth build fails for want of memory while the build of ``late`` runs."""

    def submit(self, order: BuildOrder) -> Future[Built]:
        future = super().submit(order)
        if len(self.futures) == 6:
            self.futures[-1] = future = Future()
            future.set_result(Built("machine_error", order))
        return future


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_build_that_lacked_memory_is_repeated_alone(kind: str, tmp_path: Path) -> None:
    events: list[str] = []
    builder = Starved(events, late="right 7")

    def check() -> None:
        if not builder.futures[7].done():
            order = BuildOrder("", "", None, {}, tmp_path / "7.so")
            builder.futures[7].set_result(Built("build_timeout", order))
            events.append("late")

    results = run(kind, tmp_path, 8, builder, Runner(events, kind), check=check)
    assert sorted(results)[5] == ("right 5", "ok", "ok")
    assert events.count("build right 5") == 2
    assert events[-1 - events[::-1].index("build right 5") :][1] == "run 5"
    assert events.index("late") < len(events) - events[::-1].index("build right 5")


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_pipeline_ends_when_the_space_is_exhausted(kind: str, tmp_path: Path) -> None:
    events: list[str] = []
    assert len(run(kind, tmp_path, 1000, Builder(events), Runner(events, kind))) == SIZE


@pytest.mark.parametrize("max_in_flight", [2, 6, 12])
def test_farm_is_given_several_libraries_at_once(max_in_flight: int, tmp_path: Path) -> None:
    """Up to ``max_in_flight`` libraries run at once, and results come in the order of proposals."""
    events: list[str] = []
    runner = Runner(events, "cuda", max_in_flight)
    wanted = SIZE - SIZE % max_in_flight
    results = run("cuda", tmp_path, wanted, Builder(events), runner, check=runner.finish)
    assert [result[0] for result in results] == [f"right {n}" for n in range(wanted)]
    assert runner.most == max_in_flight
