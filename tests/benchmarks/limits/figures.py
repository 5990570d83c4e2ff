"""What the rows of tuned shapes say: ratios, geometric means, and whether a bar is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf
from statistics import geometric_mean
from typing import Any

import templates
from tests.benchmarks.limits.bars import Bar
from tests.benchmarks.limits.shapes import FLOOR, SHAPES

OURS = ("default", "naive")
"""Baselines that are no peers."""

Row = dict[str, Any]
"""A :class:`~tests.benchmarks.tuned.Tuned` as a dict, with its shape's ``name``, its ``run`` and
the device's ``floor``; or ``name``, ``run`` and the ``error`` that its job ended with."""


def warm_us(row: Row) -> float:
    return float(row["best"]["timing"]["warm"]["median_us"])


def empty_us(row: Row) -> float:
    return float(row["best"]["timing"]["empty_us"])


def floor_us(row: Row, device: str) -> float | None:
    """The largest of what the operations take, what the compulsory bytes take, and a launch."""
    if device not in FLOOR:
        known = row["best"]["roofline"]["floor_us"]
        return None if known is None else float(known)
    flops, bandwidth = FLOOR[device]
    workload = templates.operator(row["operator"]).workload.model_validate(row["workload"])
    return max(1e6 * workload.flops / flops, 1e6 * workload.bytes / bandwidth, empty_us(row))


def peers(row: Row, pattern: str = "*") -> list[Row]:
    """Those that were timed and are right, fastest first."""
    return [
        baseline
        for baseline in row["best"]["baselines"]
        if baseline["name"] not in OURS
        and baseline["time_us"] is not None
        and baseline["error"] is None
        and fnmatchcase(baseline["name"], pattern)
    ]


def times_as_fast(row: Row, pattern: str = "*") -> float | None:
    """As the fastest of these peers, a call against our call; None if none was measured."""
    return min((peer["speedup"] for peer in peers(row, pattern)), default=None)


def call_us(row: Row) -> float | None:
    """Of ``library(x, w, out=y)``."""
    call = row["best"]["timing"].get("call")
    return None if call is None else float(call["median_us"])


def delivered(row: Row) -> float | None:
    """How long the call takes in a process that has only loaded the library, by what is stored."""
    stored, found = call_us(row), row.get("delivered")
    return found["call_us"] / stored if stored and found else None


@dataclass(frozen=True)
class Verdict:
    """A bar held against the rows: ``value`` is the geometric mean or the worst of them, which
    ``of`` then names; it stays "not measured" until every shape has its figure."""

    bar: Bar
    state: str
    value: float | None = None
    of: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "bar": self.bar.says,
            "limit": self.bar.limit,
            "value": self.value,
            "of": self.of,
            "state": self.state,
        }


def judged(bar: Bar, rows: list[Row], kind: str, device: str) -> Verdict:
    wanted = [shape.name for shape in SHAPES[kind] if fnmatchcase(shape.name, bar.shapes)]
    by_name = {row["name"]: row for row in rows}
    values: dict[str, float] = {}
    for name in wanted:
        row = by_name.get(name)
        value = _figure(bar, row, device) if row and "error" not in row else None
        if value is not None:
            values[name] = value
    if len(values) < len(wanted):
        return Verdict(bar, f"not measured ({len(values)} of {len(wanted)} shapes)")
    return held(bar, values)


def held(bar: Bar, values: Mapping[str, float]) -> Verdict:
    """The verdict on the figures of these shapes."""
    worst = max if bar.at == "most" else min
    of = None if bar.mean or len(values) == 1 else worst(values, key=lambda name: values[name])
    value = geometric_mean(values.values()) if bar.mean else worst(values.values())
    low, high = (-inf, bar.limit) if bar.at == "most" else (bar.limit, inf)
    return Verdict(bar, "reached" if low <= value <= high else "**not reached**", value, of)


def _figure(bar: Bar, row: Row, device: str) -> float | None:
    if bar.figure == "× as fast":
        return times_as_fast(row, bar.over)
    if bar.figure == "× empty kernel":
        return warm_us(row) / empty_us(row)
    if bar.figure == "× floor":
        floor = floor_us(row, device)
        return None if floor is None else warm_us(row) / floor
    return warm_us(row)
