"""Measure some configurations of many shapes, with a job's builder and runner."""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import templates
from templates.workload import Workload
from tests.benchmarks.predicted.trials import Config, Recorded, Recordings, Timed
from tuner.build.builder import Builder
from tuner.build.compile import Built
from tuner.compare.comparison import SETTLE_SECONDS
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.measure.trial import Measured
from tuner.measure.versions import TVM
from tuner.plan.plan import Plan
from tuner.search.evolutionary import Evolutionary
from tuner.search.strategy import Strategy

AT_ONCE = {"cpu": 1, "cuda": 10}
"""The number of shapes that are recorded at once. On a CPU nothing is built while a trial runs."""

Keep = Callable[[list[Recorded]], None]
KEEP_SECONDS = 20.0


class Sampled(Evolutionary):
    """A search whose first batch is spread over all templates. Later batches are children of the
    fastest configurations.

    A ranker must tell the first batch's configurations apart, and must be exact among their
    children.
    """

    def propose(self, count: int) -> list[int]:
        return super().propose(count) if self.results else self._founders(count, set())


class _Shape:
    """A shape that is being recorded: its plan, builds, runner and trials."""

    def __init__(
        self, workload: Workload, device: Device, builder: Builder, folder: Path,
        strategy: type[Strategy], batches: Sequence[int], settle_seconds: float,
    ) -> None:  # fmt: skip
        self.workload, self._folder, self._builder = workload, folder, builder
        self._plan = Plan(workload, device, "grid", 0)
        self._plan.search = strategy(self._plan.space, self._plan.search.featurize, 0)
        self._batches = list(batches)
        self._runner = Runner(workload.key, device, settle_seconds=settle_seconds)
        self._warming: Future[Measured] | None = None
        self._numbers = itertools.count()
        self.builds: dict[Future[Built], Config] = {}
        self.trials: list[Timed] = []

    def ask(self) -> bool:
        """Begin the builds of the next batch if there is one. Return whether any builds are
        left."""
        for config in self._plan.ask(self._batches.pop(0)) if self._batches else []:
            library = self._folder / f"{self.workload.operator}-{id(self)}-{next(self._numbers)}.so"
            self.builds[self._builder.submit(self._plan.order(config, library))] = config
        return bool(self.builds)

    def is_ready(self, built: Built) -> bool:
        """Return whether a build can be measured now, or has failed and need not be measured.

        A process's first measurement takes long. The first library is therefore measured in the
        background, so that other shapes need not wait.
        """
        if built.status == "ok" and self._warming is None:
            self._warming = self._runner.submit(built.order.library)
        return built.status != "ok" or (self._warming is not None and self._warming.done())

    def measure(self, done: Future[Built]) -> None:
        """Measure a build that has ended, and tell its time to the search."""
        config, built, time_us = self.builds.pop(done), done.result(), None
        if built.status == "ok":
            result = self._runner.measure(built.order.library)
            built.order.library.unlink()
            if result.status == "ok":
                time_us = float(result.timing["warm"]["median_us"])
        self.trials.append((config, time_us))
        self._plan.tell(self.trials[-1:])

    def close(self) -> None:
        for build in self.builds:
            build.cancel()
        self._runner.close()


def record(
    workloads: Iterable[Workload],
    device: Device,
    builder: Builder,
    strategy: type[Strategy],
    batches: Sequence[int],
    until: float,
    *,
    settle_seconds: float = SETTLE_SECONDS,
    keep: Keep = lambda _: None,
) -> list[Recorded]:
    """Return recorded trials of each workload.

    ``batches`` are the numbers of trials that the strategy proposes at a time. Recording ends at
    ``until``, a time of ``time.monotonic``. ``keep`` is called with the recordings so far, about
    every ``KEEP_SECONDS``. ``settle_seconds`` is the runner's: if it is 0, times are rough.
    """
    left, shapes, made = iter(workloads), list[_Shape](), list[Recorded]()
    kept = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="convtune-record-")))
        while time.monotonic() < until:
            while len(shapes) < AT_ONCE[device.kind] and (workload := next(left, None)) is not None:
                shape = _Shape(workload, device, builder, folder, strategy, batches, settle_seconds)
                stack.callback(shape.close)
                shapes.append(shape)
            if not shapes:
                break
            for shape in [each for each in shapes if not each.builds and not each.ask()]:
                shapes.remove(shape)
                shape.close()
                made.append(_told(shape))
            _measure_some(shapes, device.kind, until)
            if time.monotonic() - kept > KEEP_SECONDS:
                keep(made + [Recorded.of(shape.workload, shape.trials) for shape in shapes])
                kept = time.monotonic()
        made += [_told(shape) for shape in shapes if shape.trials]
    return made


def _measure_some(shapes: Sequence[_Shape], kind: str, until: float) -> None:
    """Measure the builds that have ended. On a CPU, wait until all have ended."""
    builds = [build for shape in shapes for build in shape.builds]
    wait(builds, 1.0, FIRST_COMPLETED if kind == "cuda" else ALL_COMPLETED)
    if kind == "cpu" and not all(build.done() for build in builds):
        return
    for shape in shapes:
        for build in [build for build in shape.builds if build.done()]:
            if time.monotonic() < until and shape.is_ready(build.result()):
                shape.measure(build)


def _told(shape: _Shape) -> Recorded:
    times = sorted(time_us for _, time_us in shape.trials if time_us is not None)
    print(
        f"{shape.workload.operator} {shape.workload.explicit_fields}: {len(shape.trials)} trials, "
        f"{len(shape.trials) - len(times)} failed, best {times[0] if times else 0:.2f} µs",
        file=sys.stderr,
        flush=True,
    )
    return Recorded.of(shape.workload, shape.trials)


def recordings(device: Device, shapes: list[Recorded]) -> Recordings:
    """Return the recordings of a device with today's date and the versions of its templates."""
    today = datetime.now(UTC).date().isoformat()
    versions = {
        f"{operator.name}.{template.name}": template.version
        for operator in templates.operators()
        for template in operator.templates
        if template.kind == device.kind
    }
    return Recordings(device.fingerprint(), today, {"apache-tvm": TVM, **versions}, shapes)
