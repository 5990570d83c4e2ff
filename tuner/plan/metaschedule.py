"""MetaSchedule's own search over the naive computation: its rules, its evolution, its cost model.

It takes as long as a job, unlike the other peers, so it runs only if settings ask for it. Its
candidates are built, checked and timed as ours are. A wrong one counts as failed."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import templates
from templates.workload import Workload
from tuner.build.builder import COMPILER, Builder
from tuner.build.compile import BuildOrder, Built
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.errors import ChildError, ChildFailed
from tuner.plan.evolution import search_target
from tuner.plan.intrinsics import register_intrinsics
from tuner.process.child import Child
from tuner.settings import Settings

NAME = "metaschedule"
START_SECONDS, TRIAL_SECONDS = 600.0, 10.0
"""Time limit of a search: the first once, and the second for each trial."""
BATCH = 64
"""MetaSchedule's own."""


class Candidate:
    """A module that MetaSchedule proposes, in the form that the builder takes."""

    def schedule(self, workload: Workload, config: dict[str, Any]) -> Any:
        import tvm

        return SimpleNamespace(mod=tvm.ir.load_json(config["module"]))


PROGRAM = f"{__name__}:{Candidate.__qualname__}"


def search(
    workload: Workload,
    device: Device,
    settings: Settings,
    trials: int,
    seed: int,
    folder: Path,
    check: Callable[[], None],
) -> Built:
    """The best of ``trials`` candidates, its library in ``folder``; what failed is a value with
    its reason. The compiler stays in a process of its own. ``check()`` is called again and again
    meanwhile, and may raise."""
    arguments = (workload.key, device, settings, trials, seed, folder)
    seconds = START_SECONDS + TRIAL_SECONDS * trials
    with closing(Child(importing=COMPILER)) as child:
        try:
            return child.call(tune, *arguments, timeout=seconds, check=check)
        except ChildFailed as error:
            return _failed(workload.key, device, error)


def tune(
    workload_key: str, device: Device, settings: Settings, trials: int, seed: int, folder: Path
) -> Built:
    """As :func:`search`, in this process, which can then register no other device's intrinsics."""
    import tvm
    from tvm.s_tir import meta_schedule

    workload = templates.parse_key(workload_key)
    naive = importlib.import_module(f"templates.{workload.operator}.ladder.baseline")
    target = tvm.target.Target(search_target(device))
    register_intrinsics(target.kind.name)
    with (
        Builder(settings.build_workers, settings.build_seconds, settings.build_cache) as builder,
        Runner(workload_key, device, seed, settings.run_seconds) as runner,
    ):
        bench = _Bench(workload_key, device, builder, runner, folder)
        meta_schedule.tune_tir(
            tvm.IRModule({"main": naive.computation(workload)}),
            target,
            str(folder),
            trials,
            num_trials_per_iter=min(BATCH, trials),
            builder=bench.builder(),
            runner=bench.runner(),
            database="memory",
            seed=seed,
        )
    if bench.best is None:
        reason = f"none of {bench.tried} candidates worked; first: {bench.first_error}"
        return _failed(workload_key, device, RuntimeError(reason))
    return bench.best


def _failed(workload_key: str, device: Device, error: Exception) -> Built:
    order = BuildOrder(workload_key, PROGRAM, None, device.target, Path())
    lines = str(error).strip().splitlines()
    reason = lines[-1] if isinstance(error, ChildError) else str(error)  # the end of a traceback
    return Built("build_error", order, error=reason[:500])


class _Bench:
    """Our builder and runner as MetaSchedule calls them."""

    def __init__(
        self, workload_key: str, device: Device, builder: Builder, runner: Runner, folder: Path
    ) -> None:
        self._workload_key, self._device = workload_key, device
        self._builder, self._runner, self._folder = builder, runner, folder
        self._built: dict[str, Built] = {}
        self._best_us = float("inf")
        self.best: Built | None = None
        self.tried = 0
        self.first_error = ""

    def builder(self) -> Any:
        import tvm
        from tvm.ir.utils import derived_object
        from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder

        bench = self

        @derived_object
        class OurBuilder(PyBuilder):  # type: ignore[misc]
            def build(self, build_inputs: list[Any]) -> list[Any]:
                modules = [tvm.ir.save_json(each.mod) for each in build_inputs]
                return [
                    BuilderResult(str(built.order.library), None)
                    if built.status == "ok"
                    else BuilderResult(None, built.error)
                    for built in bench.build(modules)
                ]

        return OurBuilder()

    def runner(self) -> Any:
        from tvm.ir.utils import derived_object
        from tvm.s_tir.meta_schedule.runner import PyRunner, RunnerFuture, RunnerResult

        bench = self

        @derived_object
        class OurRunner(PyRunner):  # type: ignore[misc]
            def run(self, runner_inputs: list[Any]) -> list[Any]:
                futures = []
                for each in runner_inputs:
                    time_us, error = bench.run(str(each.artifact_path))
                    result = RunnerResult([time_us * 1e-6] if time_us else None, error)
                    futures.append(RunnerFuture(lambda: True, lambda result=result: result))
                return futures

        return OurRunner()

    def build(self, modules: list[str]) -> list[Built]:
        futures = []
        for module in modules:
            # a folder for each: MetaSchedule removes what a library lies in
            inside = self._folder / f"candidate-{self.tried}"
            inside.mkdir()
            self.tried += 1
            order = BuildOrder(
                self._workload_key,
                PROGRAM,
                {"module": module},
                self._device.target,
                inside / "candidate.so",
            )
            futures.append(self._builder.submit(order))
        built = [future.result() for future in futures]
        self._built = {str(each.order.library): each for each in built}
        for each in built:
            self._note(each.error)
        return built

    def run(self, library: str) -> tuple[float | None, str | None]:
        measured = self._runner.measure(Path(library))
        if measured.status != "ok":
            self._note(measured.error)
            return None, f"{measured.status}: {measured.error}"
        time_us = float(measured.timing["warm"]["median_us"])
        if time_us < self._best_us:
            built, kept = self._built[library], self._folder / f"{NAME}.so"
            shutil.copyfile(library, kept)
            order = BuildOrder(
                self._workload_key, PROGRAM, built.order.config, self._device.target, kept
            )
            self._best_us, self.best = time_us, Built("ok", order, source=built.source)
        return time_us, None

    def _note(self, error: str | None) -> None:
        self.first_error = self.first_error or error or ""
