"""Warm start: a search learns from trials of other shapes on the same device before it begins."""

from __future__ import annotations

import math

from pydantic import ValidationError
from sqlalchemy.engine import Engine

import templates
from db.queue import history
from templates.errors import TemplateError
from templates.workload import Workload
from tuner.measure.versions import TVM
from tuner.plan.plan import Plan

WORKLOADS, TRIALS = 4, 256
"""How many of the nearest workloads are used, and how many of the last trials of each."""
CATEGORY_DISTANCE = 8.0
"""The distance of two values that are no numbers. Numbers that differ by a factor of 256 have the
same distance."""
EPILOGUE_DISTANCE = 2.0
"""The distance of two values of a field of the epilogue, which hardly changes what is fast."""
EPILOGUE = frozenset({"bias", "residual", "activation"})
MAX_DISTANCE = 10.0
"""Workloads that are farther away are not used: what was fast for them would mislead the search."""


def warm_up(engine: Engine, plan: Plan, device_id: int) -> tuple[int, int]:
    """Give the plan trials of other workloads; return how many jobs and trials it uses."""
    known = []
    for key in history.tried_workloads(engine, plan.workload.operator, device_id):
        try:
            workload = templates.parse_key(key)
        except (ValidationError, TemplateError):  # stored by a release with other fields
            continue
        apart = distance(plan.workload, workload)
        if key != plan.workload.key and apart <= MAX_DISTANCE:
            known.append((apart, key, workload))
    past = [
        (workload, history.latest_trials(engine, key, device_id, TVM, TRIALS))
        for _, key, workload in sorted(known, key=lambda each: each[:2])[:WORKLOADS]
    ]
    return plan.warm_up(past)


def distance(one: Workload, other: Workload) -> float:
    """Return the Euclidean distance of two workloads, with log2 of the ratio for numbers."""
    here, there = one.model_dump(), other.model_dump()
    return math.hypot(
        *(_field_distance(name, here.get(name), there.get(name)) for name in here | there)
    )


def _field_distance(name: str, one: object, other: object) -> float:
    if one == other:
        return 0.0
    # a bool is an int in Python
    if any(isinstance(each, bool) or not isinstance(each, int | float) for each in (one, other)):
        return EPILOGUE_DISTANCE if name in EPILOGUE else CATEGORY_DISTANCE
    return math.log2(one / other)  # type: ignore[operator]  # both are numbers
