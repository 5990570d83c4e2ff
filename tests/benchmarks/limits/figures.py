"""The figures of tuned shapes' rows: times, ratios, and whether a bar is reached."""

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
"""The baselines that are not peers."""

Row = dict[str, Any]
"""A :class:`~tests.benchmarks.tuned.Tuned` as a dict, with its shape's ``name``, the number of its
``run`` and what ``delivered`` found; or ``name``, ``run`` and the ``error`` of its job."""


def warm_us(row: Row) -> float:
    return float(row["best"]["timing"]["warm"]["median_us"])


def empty_us(row: Row) -> float:
    return float(row["best"]["timing"]["empty_us"])


def floor_us(row: Row, device: str) -> float | None:
    """Return the floor of a row in µs, or None if it is unknown.

    It is the largest of the times of the operations, the compulsory bytes and an empty kernel, by
    the rates in ``FLOOR`` or, for a device that is not in it, by the best's own roofline.
    """
    if device not in FLOOR:
        known = row["best"]["roofline"]["floor_us"]
        return None if known is None else float(known)
    flops, bandwidth = FLOOR[device]
    workload = templates.operator(row["operator"]).workload.model_validate(row["workload"])
    return max(1e6 * workload.flops / flops, 1e6 * workload.bytes / bandwidth, empty_us(row))


def peers(row: Row, pattern: str = "*") -> list[Row]:
    """Return the peers whose names match a pattern, fastest first. Wrong and untimed peers are left
    out."""
    return [
        baseline
        for baseline in row["best"]["baselines"]
        if baseline["name"] not in OURS
        and baseline["time_us"] is not None
        and baseline["error"] is None
        and fnmatchcase(baseline["name"], pattern)
    ]


def times_as_fast(row: Row, pattern: str = "*") -> float | None:
    """Return the best's speed-up over the fastest of these peers, or None if no peer was timed. A
    peer that is called from Python is compared with the library's call."""
    return min((peer["speedup"] for peer in peers(row, pattern)), default=None)


def call_us(row: Row) -> float | None:
    """Return the time of ``library(x, w, out=y)`` in µs, or None if it was not measured."""
    call = row["best"]["timing"].get("call")
    return None if call is None else float(call["median_us"])


def delivered(row: Row) -> float | None:
    """Return the time of the call in a process that has only loaded the library, divided by the
    time that is stored with the best; None if one of them is missing."""
    stored, found = call_us(row), row.get("delivered")
    return found["call_us"] / stored if stored and found else None


@dataclass(frozen=True)
class Verdict:
    """Whether a bar is reached.

    ``value`` is the geometric mean or the worst figure, and ``of`` the name of the shape with the
    worst one. ``state`` is "not measured" until every shape has a figure. ``is_unknown`` says that
    no shape has one.
    """

    bar: Bar
    state: str
    value: float | None = None
    of: str | None = None
    is_unknown: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "bar": self.bar.says,
            "limit": self.bar.limit,
            "value": self.value,
            "of": self.of,
            "state": self.state,
        }


def judged(bar: Bar, rows: list[Row], kind: str, device: str) -> Verdict:
    """Return whether the rows of a kind of device reach a bar. ``device`` is its name."""
    wanted = [shape.name for shape in SHAPES[kind] if fnmatchcase(shape.name, bar.shapes)]
    by_name = {row["name"]: row for row in rows}
    values: dict[str, float] = {}
    for name in wanted:
        row = by_name.get(name)
        value = _figure(bar, row, device) if row and "error" not in row else None
        if value is not None:
            values[name] = value
    if len(values) < len(wanted):
        state = f"not measured ({len(values)} of {len(wanted)} shapes)"
        return Verdict(bar, state, is_unknown=not values)
    return held(bar, values)


def held(bar: Bar, values: Mapping[str, float]) -> Verdict:
    """Return whether figures reach a bar. ``values`` has them by the shapes' names."""
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
