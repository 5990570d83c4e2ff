"""Measure every configuration of a workload, with a job's builder and runner."""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.strategies import shapes
from tests.benchmarks.strategies.recording import Recording
from tests.benchmarks.strategies.shapes import CHOSEN_ON
from tests.benchmarks.strategies.space_json import to_json
from tuner.build.builder import Builder
from tuner.compare.runner import Runner
from tuner.device.device import Device
from tuner.measure.versions import TVM
from tuner.plan.plan import Plan

BATCH = 32
AGAIN, ROUNDS = 1.5, 3
"""Configurations that take at most ``AGAIN`` times the fastest time are timed ``ROUNDS`` times
more. The least time counts, because other load on the machine only adds to a time."""


def record(name: str, device: Device, builders: int) -> Recording:
    """Record the whole space of a shape of ``CHOSEN_ON["cpu"]`` on this machine. It takes hundreds
    of builds and a few minutes."""
    operator, fields = CHOSEN_ON["cpu"][name]
    workload = shapes.workload(operator, fields)
    plan = Plan(workload, device, "grid", 0)
    with (
        tempfile.TemporaryDirectory(prefix="convtune-record-") as folder,
        Builder(builders) as builder,
        Runner(workload.key, device) as runner,
    ):
        times = _times(plan, builder, runner, Path(folder))
    return Recording(
        operator=operator,
        workload=workload.model_dump(),
        device=device.fingerprint(),
        date=datetime.now(UTC).date().isoformat(),
        versions={"apache-tvm": TVM},
        space_json=to_json(plan.space),
        times=[time_us and float(f"{time_us:.5g}") for time_us in times],
    )


def _times(plan: Plan, builder: Builder, runner: Runner, folder: Path) -> list[float | None]:
    times: list[float | None] = []
    libraries: dict[int, Path] = {}
    while configs := plan.ask(BATCH):
        paths = [folder / f"{len(times) + place}.so" for place in range(len(configs))]
        orders = [plan.order(*pair) for pair in zip(configs, paths, strict=True)]
        futures = [builder.submit(order) for order in orders]
        for built in [future.result() for future in futures]:
            library = built.order.library
            time_us = _time(runner, library) if built.status == "ok" else None
            if time_us is not None:
                libraries[len(times)] = library
            times.append(time_us)
        print(f"\r{len(times)} of {len(plan.space)}", end="", file=sys.stderr, flush=True)
    for _ in range(ROUNDS):
        limit = AGAIN * min(time_us for time_us in times if time_us is not None)
        for place, library in libraries.items():
            before = times[place]
            if before is not None and before <= limit:
                times[place] = min(before, _time(runner, library) or before)
    return times


def _time(runner: Runner, library: Path) -> float | None:
    result = runner.measure(library)
    return float(result.timing["warm"]["median_us"]) if result.status == "ok" else None
