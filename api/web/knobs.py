"""Tables of a job's knobs: the times of each value, and how much of the spread a knob explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from templates.spaces.knob import brief

KNOB_VALUES = 12
TEMPLATE = "template"

Sample = tuple[dict[str, Any], str, float | None]
"""A trial's configuration, status and time in µs."""


def knob_tables(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return a table for each knob that has several values.

    A table has a row for each value, fastest first. A row has the number of trials with this value,
    how many of them failed, and their best and median times. The first table is that of the
    templates and covers all trials. The others cover only the template of the fastest trial,
    because a knob of the same name may mean something else in another template. Of them, the knob
    that explains the most comes first.
    """
    timed = [sample for sample in samples if sample[1] == "ok" and sample[2]]
    if timed:
        config, *_ = min(timed, key=lambda sample: sample[2] or 0.0)
        own = [sample for sample in samples if sample[0].get(TEMPLATE) == config.get(TEMPLATE)]
    else:
        own = list(samples)
    knobs = list(dict.fromkeys(name for sample in own for name in sample[0]))
    tables = [_table(name, own) for name in knobs if name != TEMPLATE]
    tables.sort(key=lambda table: -(table["explains"] or 0.0))
    return [t for t in [_table(TEMPLATE, samples), *tables] if len(t["rows"]) > 1]


def explained(groups: Sequence[Sequence[float]]) -> float | None:
    """Return the share of the variance of log times that lies between the groups.

    The share that random groups would explain is subtracted. The result is Kelley's epsilon
    squared, 1 - (within / (n - k)) / (total / (n - 1)) for n times in k groups, or 0 if negative.
    Return None if there are too few times to tell, or all are equal."""
    logs = [[math.log(time) for time in group] for group in groups if group]
    every = [each for group in logs for each in group]
    if len(logs) < 2 or len(every) <= len(logs):
        return None
    total = _squares(every)
    if total == 0:
        return None
    within = sum(_squares(group) for group in logs)
    return max(0.0, 1 - (within / (len(every) - len(logs))) / (total / (len(every) - 1)))


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def _table(name: str, samples: Sequence[Sample]) -> dict[str, Any]:
    """Return a knob's table: up to KNOB_VALUES rows, and how many more there are."""
    values: dict[str, list[float | None]] = {}
    for config, status, time in samples:
        if name in config:
            values.setdefault(_said(config[name]), []).append(time if status == "ok" else None)
    rows = [_value_row(value, times) for value, times in values.items()]
    rows.sort(key=lambda row: (row["best"] is None, row["best"] or 0.0))
    groups = [[time for time in times if time] for times in values.values()]
    return {
        "name": name,
        "rows": rows[:KNOB_VALUES],
        "more": len(rows[KNOB_VALUES:]),
        "explains": explained(groups),
    }


def _value_row(value: str, times: Sequence[float | None]) -> dict[str, Any]:
    ok = [time for time in times if time is not None]
    return {
        "value": brief(value),
        "trials": len(times),
        "failed": len(times) - len(ok),
        "best": min(ok, default=None),
        "median": median(ok) if ok else None,
    }


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return " × ".join(str(each) for each in value)
    return str(value)
