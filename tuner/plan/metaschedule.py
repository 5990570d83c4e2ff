"""MetaSchedule as a peer: its own search over the naive computation, with its own cost model.

Unlike other peers it takes as long as a job, so it runs only if settings ask for it. Its candidates
are built, checked and timed like ours, and one with wrong numbers counts as failed.
"""

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
"""The time limit of a search: START_SECONDS, and TRIAL_SECONDS for each trial."""
BATCH = 64
"""How many candidates MetaSchedule itself proposes in one iteration."""


class Candidate:
    """A module that MetaSchedule proposes, as a program that the builder takes.

    Its configuration is ``{"module": the module as JSON}``.
    """

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
    """Return the build of the fastest of ``trials`` candidates; its library is in ``folder``.

    If none worked or the search failed, the build has the status ``build_error`` and the reason.
    The search runs in a child process, so that this process needs no compiler. ``check()`` is
    called repeatedly during the search and may raise.
    """
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
    """Search in this process; :func:`search` calls this in a child.

    The process can't register the intrinsics of another kind of device afterwards.
    """
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
    reason = lines[-1] if isinstance(error, ChildError) else str(error)  # a traceback's last line
    return Built("build_error", order, error=reason[:500])


class _Bench:
    """Adapters through which MetaSchedule uses our builder and runner.

    ``best`` is the fastest build so far, ``tried`` the number of candidates.
    """

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
            # a folder for each library, because MetaSchedule removes the folder after the run
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
        """Measure a library; return its time in µs, or None and the error."""
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
