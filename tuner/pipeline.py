"""Candidates through builder and runner, one result after the other."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path

from tuner.measure.builder import Builder
from tuner.measure.compile import Built
from tuner.measure.runner import Runner
from tuner.measure.trial import Measured
from tuner.plan import Config, Plan

BATCH = 8


def measured(
    plan: Plan, builder: Builder, runner: Runner, folder: Path, left: Callable[[], int]
) -> Iterator[tuple[Config, Built, Measured | None]]:
    """Results in the order in which the plan proposed them; None where the build failed.

    ``left()`` says how many more are wanted. On a GPU the next batch is built while one runs;
    on a CPU building would disturb the timing, so a batch is built before any of it runs.
    """
    overlap = plan.device.kind == "cuda"
    batch = max(BATCH, builder.workers)
    pending: deque[tuple[Config, Future[Built]]] = deque()
    numbers = itertools.count()
    while True:
        if not pending or (overlap and len(pending) <= batch):
            for config in plan.ask(min(batch, left() - len(pending))):
                library = folder / f"{next(numbers)}.so"
                pending.append((config, builder.submit(plan.order(config, library))))
        if not pending:
            return
        if not overlap:
            wait([future for _, future in pending])
        config, future = pending.popleft()
        built = future.result()
        if built.status != "ok":
            yield config, built, None
            continue
        result = runner.measure(built.order.library)
        built.order.library.unlink(missing_ok=True)
        yield config, built, result
