"""Several searches of a whole space on the device itself, side by side. A configuration is measured
once for all of them."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from templates.workload import Workload
from tests.benchmarks.strategies.rankers import ranker_without
from tuner.build.builder import Builder
from tuner.build.compile import Built
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.measure.trial import Measured
from tuner.plan.plan import Plan
from tuner.search import Result, Strategy, create

BATCH = 16
Config = dict[str, Any]
T = TypeVar("T")


@dataclass
class Run:
    """One search. ``times`` are those of its trials in µs, in order. The time of a failed trial is
    None."""

    guided: bool
    seed: int
    strategy: Strategy
    times: list[float | None] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)


def live(
    workload: Workload, device: Device, builder: Builder, runs: list[tuple[bool, int]],
    trials: int, until: float,
) -> tuple[list[Run], dict[int, float | None], Plan]:  # fmt: skip
    """Run a search ``xgb`` of ``trials`` trials for each of ``runs``: (is guided by a ranker,
    seed).

    All end at ``until``, a time of ``time.monotonic``. Return the searches, all measured times by
    index (None if a trial failed), and the plan with their space.
    """
    plan = Plan(workload, device, "grid", 0)
    features = _once(plan.search.featurize)
    ranker = ranker_without(device.kind, workload)
    known: dict[str, float] = {}

    def prior(configs: Sequence[Config]) -> NDArray[np.float32]:
        new = [config for config in configs if _name(config) not in known]
        if new:
            expected = ranker.expected(workload, device.limits, features, new)
            known.update(zip(map(_name, new), expected.tolist(), strict=True))
        return np.array([known[_name(config)] for config in configs], np.float32)

    made = [
        Run(guided, seed, create("xgb", plan.space, features, seed, prior if guided else None))
        for guided, seed in runs
    ]
    with (
        tempfile.TemporaryDirectory(prefix="convtune-live-") as folder,
        Runner(workload.key, device, settle_seconds=0) as runner,
    ):
        times = _Times(plan, builder, runner, Path(folder))
        while time.monotonic() < until and any(len(run.times) < trials for run in made):
            for run in made:
                _advance(run, times, trials)
            times.wait()
        times.drop()
    return made, times.known, plan


def _advance(run: Run, times: _Times, trials: int) -> None:
    if run.asked and all(index in times.known for index in run.asked):
        run.times += [times.known[index] for index in run.asked]
        run.strategy.tell([Result(index, times.known[index]) for index in run.asked])
        run.asked = []
    if not run.asked and len(run.times) < trials:
        run.asked = run.strategy.ask(min(BATCH, trials - len(run.times)))
        for index in run.asked:
            times.order(index)


class _Times:
    """The times of configurations by index, each built and measured once."""

    def __init__(self, plan: Plan, builder: Builder, runner: Runner, folder: Path) -> None:
        self.known: dict[int, float | None] = {}
        self._plan, self._builder, self._runner, self._folder = plan, builder, runner, folder
        self._builds: dict[int, Future[Built]] = {}
        self._runs: dict[int, Future[Measured]] = {}

    def order(self, index: int) -> None:
        if index not in self.known and index not in self._builds and index not in self._runs:
            order = self._plan.order(self._plan.space[index], self._folder / f"{index}.so")
            self._builds[index] = self._builder.submit(order)

    def wait(self) -> None:
        """Wait, for a second at most, until a build or a run ends, and take the results."""
        wait([*self._builds.values(), *self._runs.values()], 1.0, FIRST_COMPLETED)
        for index, build in _done(self._builds):
            built = build.result()
            if built.status == "ok":
                self._runs[index] = self._runner.submit(built.order.library)
            else:
                self.known[index] = None
        for index, run in _done(self._runs):
            result = run.result()
            worked = result.status == "ok"
            self.known[index] = float(result.timing["warm"]["median_us"]) if worked else None
            (self._folder / f"{index}.so").unlink()

    def drop(self) -> None:
        for each in (*self._builds.values(), *self._runs.values()):
            each.cancel()


def _done(futures: dict[int, Future[T]]) -> Iterator[tuple[int, Future[T]]]:
    """Yield the futures that have ended and remove them from ``futures``."""
    for index in [index for index, future in futures.items() if future.done()]:
        yield index, futures.pop(index)


def _name(config: Config) -> str:
    return json.dumps(config)


def _once(function: Callable[[Config], T]) -> Callable[[Config], T]:
    """Return the function with a cache of its results by configuration."""
    found: dict[str, T] = {}

    def kept(config: Config) -> T:
        name = _name(config)
        if name not in found:
            found[name] = function(config)
        return found[name]

    return kept
