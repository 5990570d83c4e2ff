"""One network, tuned, optimised, and timed beside PyTorch's ways to run it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from typing import Any

import torch
from sqlalchemy import select

from db.sql.engine import open_engine
from db.sql.tables import jobs, workloads
from db.sql.transaction import reading
from tests.benchmarks.models.networks import Case
from tests.benchmarks.models.ways import compiled, in_turns, ready
from tuner.client.local import Local
from tuner.torch import capture, optimize_

OURS = "optimize_"
HOW = ("eager", "compiled", "frozen", "max-autotune")


def measured(case: Case, layout: str, hows: Collection[str], source: Local) -> dict[str, Any]:
    """Tune a network and return its row of the result.

    ``layout`` is that of the optimised network; PyTorch runs it in both layouts, but with
    ``max-autotune`` in this one only. ``hows`` are the ways to run either, from ``HOW``.
    """
    layout = layout if layout in case.layouts else ""
    row: dict[str, Any] = {"name": case.name, **case.fields, "layout": layout}
    calls = {}
    for each in case.layouts:
        for how in hows:
            if how != "max-autotune" or each == layout:
                calls[f"{how} {each}".strip()] = _call(case, each, how)
    model = case.model().to(memory_format=torch.channels_last if layout == "NHWC" else None)
    x = case.example(model, layout)
    keys = {each.workload.key for each in capture(model, x) if each.workload}
    _optimized(model, x, source, "tune")
    row["jobs_s"] = seconds_of_jobs(keys, source)
    row["found_s"], report = _optimized(model, x, source, "fallback")
    row["report"] = json.loads(report.to_json())
    row["difference"] = report.error
    for how in hows:
        run = model if how == "eager" else compiled(model, how)
        calls[f"{OURS} {how}"] = ready(lambda run=run: run(x), case.device)
    row["ms"] = in_turns(calls, case.device)
    return row


def _call(case: Case, layout: str, how: str) -> Any:
    model = case.model()
    x = case.example(model, layout)
    model = model.to(memory_format=torch.channels_last if layout == "NHWC" else None)
    run = model if how == "eager" else compiled(model, how)
    return ready(lambda: run(x), case.device)


def _optimized(model: Any, x: Any, source: Local, on_missing: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    report = optimize_(model, x, source=source, on_missing=on_missing)
    return time.perf_counter() - start, report


def seconds_of_jobs(keys: set[str], source: Local) -> float | None:
    """Return the seconds that the last jobs of these workloads took together, or None if one of
    them was interrupted and claimed again."""
    engine = open_engine(source.where)
    with reading(engine) as connection:
        found = connection.execute(
            select(workloads.c.key, jobs.c.attempt, jobs.c.finished_at - jobs.c.started_at)
            .join(workloads, workloads.c.id == jobs.c.workload_id)
            .where(jobs.c.state == "succeeded", workloads.c.key.in_(keys))
            .order_by(jobs.c.seq)
        ).all()
    engine.dispose()
    last = {key: (attempt, seconds) for key, attempt, seconds in found}
    if any(attempt > 1 for attempt, _ in last.values()):
        return None
    return sum(seconds for _, seconds in last.values())


def speedup(row: dict[str, Any]) -> float:
    """Return the speed-up of the fastest optimised way over PyTorch's fastest way."""
    ours = min(ms for name, ms in row["ms"].items() if name.startswith(OURS))
    return min(ms for name, ms in row["ms"].items() if not name.startswith(OURS)) / ours
