"""Candidates through builder and runner, one result after the other."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from contextlib import closing
from pathlib import Path

from tuner.measure.builder import Builder
from tuner.measure.compile import Built
from tuner.measure.runner import Runner
from tuner.measure.trial import Measured
from tuner.plan import Config, Plan

BATCH = 8
CHECK_SECONDS = 1.0


def measured(
    plan: Plan,
    builder: Builder,
    runner: Runner,
    folder: Path,
    *,
    left: Callable[[], int],
    check: Callable[[], None],
) -> Generator[tuple[Config, Built, Measured | None]]:
    """Results in the order in which the plan proposed them; None where the build failed.

    ``left()`` says how many more are wanted; at 0 what was built ahead is dropped. ``check()``
    is called again and again while builds are waited for, and may raise. On a GPU the next
    batch is built while one runs; on a CPU building would disturb the timing, so a batch is
    built before any of it runs.
    """
    overlap = plan.device.kind == "cuda"
    batch = max(BATCH, builder.workers)
    pending: deque[tuple[Config, Future[Built]]] = deque()
    numbers = itertools.count()
    try:
        while (wanted := left()) > 0:
            if not pending or (overlap and len(pending) <= batch):
                for config in plan.ask(min(batch, wanted - len(pending))):
                    library = folder / f"{next(numbers)}.so"
                    pending.append((config, builder.submit(plan.order(config, library))))
            if not pending:
                return
            awaited = [future for _, future in pending]
            while wait(awaited[:1] if overlap else awaited, CHECK_SECONDS).not_done:
                check()
            config, future = pending.popleft()
            built = future.result()
            if built.status != "ok":
                yield config, built, None
                continue
            result = runner.measure(built.order.library)
            built.order.library.unlink(missing_ok=True)
            yield config, built, result
    finally:  # a job that ends early leaves no builds before the next one's
        for _, future in pending:
            future.cancel()


def best_of(
    plan: Plan, builder: Builder, runner: Runner, folder: Path, trials: int
) -> tuple[Config | None, int]:
    """The fastest of so many trials, None where none worked, and how many there were: fewer where
    the space runs out."""
    times: list[tuple[Config, float | None]] = []
    results = measured(
        plan, builder, runner, folder, left=lambda: trials - len(times), check=lambda: None
    )
    with closing(results):
        for config, _, result in results:
            time_us = None
            if result is not None and result.status == "ok":
                time_us = result.timing["warm"]["median_us"]
            times.append((config, time_us))
            plan.tell(times[-1:])
    worked = [(time, place) for place, (_, time) in enumerate(times) if time is not None]
    return (times[min(worked)[1]][0] if worked else None), len(times)
