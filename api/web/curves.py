"""Curves of a job's trials, thinned so that 100,000 trials are drawn as fast as a hundred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from db.read.views import Point
from templates.ceil_div import ceil_div

MOST_POINTS = 900
MOST_STEPS = 200


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Return the points; if there are more than ``most``, those that keep the curve's envelope.

    The kept points are the :func:`steps` of the best time and, of each run of neighbours, the
    fastest, the slowest and the first failure. ``most`` is at least 4."""
    if len(points) <= most:
        return list(points)
    kept = {point.number: point for point in steps(points, most // 4)}
    size = ceil_div(len(points), (most - len(kept)) // 3)
    for first in range(0, len(points), size):
        run = points[first : first + size]
        timed = [point for point in run if _timed(point)]
        if timed:
            for point in (min(timed, key=_time), max(timed, key=_time)):
                kept[point.number] = point
        kept |= {p.number: p for p in [p for p in run if p.status != "ok"][:1]}
    return [kept[number] for number in sorted(kept)]


def steps(points: Sequence[Point], most: int = MOST_STEPS) -> list[Point]:
    """Return the trials that were faster than all before them.

    If there are more than ``most``, return only every n-th of them, and always the last."""
    found: list[Point] = []
    for point in points:
        if _timed(point) and (not found or _time(point) < _time(found[-1])):
            found.append(point)
    stride = ceil_div(len(found), most)
    return found[::-1][::stride][::-1] if stride > 1 else found


def columns(points: Sequence[Point], started: float) -> dict[str, list[Any]]:
    """Return uPlot's columns: the two x axes (number, seconds), the best so far, time and status.

    ``started`` is in seconds since 1970, as ``Point.created_at`` is. Times are in µs; the time of a
    failed trial is None."""
    best: float | None = None
    so_far: list[float | None] = []
    for point in points:
        if _timed(point) and (best is None or _time(point) < best):
            best = _time(point)
        so_far.append(best)
    return {
        "number": [point.number for point in points],
        "seconds": [round(max(point.created_at - started, 0.0), 2) for point in points],
        "best": so_far,
        "time": [point.time_us if _timed(point) else None for point in points],
        "status": [point.status for point in points],
    }


def counted(points: Sequence[Point]) -> list[tuple[str, int]]:
    """Return how many trials have each status: ``ok`` first, then failures by how many they are."""
    counts: dict[str, int] = {}
    for point in points:
        counts[point.status] = counts.get(point.status, 0) + 1
    return sorted(counts.items(), key=lambda item: (item[0] != "ok", -item[1], item[0]))


def _timed(point: Point) -> bool:
    return point.status == "ok" and point.time_us is not None and point.time_us > 0


def _time(point: Point) -> float:
    return point.time_us or 0.0
