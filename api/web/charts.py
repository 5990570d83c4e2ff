"""Positions of bars, axes and points, which the HTML files draw as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templates.ceil_div import ceil_div

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 640, 380, 80, 58, 20, 24


@dataclass(frozen=True)
class Bar:
    """One bar of a chart."""

    name: str
    kind: str  # its CSS class
    value: float | None
    figure: str  # the value as text, or why there is none
    title: str = ""
    mark: float | None = None  # another value on the same scale


@dataclass(frozen=True)
class Bars:
    """Bars on one scale.

    Lengths and positions are in per cent of the width that the page has for bars, because a phone's
    page is narrow but its letters are not."""

    rows: list[dict[str, Any]]
    ticks: list[dict[str, Any]]


def bars(given: Sequence[Bar], *, logarithmic: bool = False) -> Bars:
    """Return the bars on a scale from zero, or on a logarithmic one.

    The logarithmic scale begins at a power of ten not above the least value, and has ticks."""
    values = [v for bar in given for v in (bar.value, bar.mark) if v is not None and v > 0]
    most = max(values, default=1.0)
    low = math.floor(math.log10(min(values, default=1.0)))
    high = max(math.ceil(math.log10(most)), low + 1)

    def along(value: float) -> float:
        part = (math.log10(value) - low) / (high - low) if logarithmic else value / most
        return round(100 * part, 1)

    rows = [
        {
            "bar": bar,
            "length": max(along(bar.value), 0.5) if bar.value else 0,
            "mark": along(bar.mark) if bar.mark else None,
        }
        for bar in given
    ]
    powers = range(low, high + 1, ceil_div(high - low, 6)) if logarithmic else range(0)
    ticks = [{"at": along(10.0**p), "text": f"{10.0**p:,.{max(-p, 0)}f}"} for p in powers]
    return Bars(rows, ticks)


def roofline(
    limits: Mapping[str, Any], flops: int, moved: int, times: Mapping[str, float]
) -> dict[str, Any] | None:
    """Return a roofline chart: GFLOP/s against FLOP/byte of compulsory traffic, both logarithmic.

    It has the device's roof, and a point for each of ``times``, which are in µs by name.
    ``limits`` has ``peak_flops`` in FLOP/s and ``peak_bandwidth`` in bytes/s; ``moved`` is in
    bytes. Return None if one of the peaks is unknown, or there is nothing to draw.

    Source: Williams, Waterman, Patterson, "Roofline", 2009."""
    peak, bandwidth = limits.get("peak_flops"), limits.get("peak_bandwidth")
    if not (peak and bandwidth and flops and moved and times):
        return None
    intensity, ridge = flops / moved, peak / bandwidth
    rates = {name: flops / time * 1e-3 for name, time in times.items() if time > 0}
    x_low = math.floor(math.log10(min(intensity, ridge))) - 0.3
    x_high = math.ceil(math.log10(max(intensity, ridge))) + 0.3
    y_high = math.log10(max(peak * 1e-9, *rates.values())) + 0.35
    y_low = min([*map(math.log10, rates.values()), y_high - 2]) - 0.4

    def x(value: float) -> float:
        return round(
            LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - x_low) / (x_high - x_low), 1
        )

    def y(value: float) -> float:
        part = (math.log10(value) - y_low) / (y_high - y_low)
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part, 1)

    start = max(10**x_low, 10**y_low * 1e9 / bandwidth)
    roof = [(start, start * bandwidth * 1e-9), (ridge, peak * 1e-9), (10**x_high, peak * 1e-9)]
    attainable = min(peak, intensity * bandwidth) * 1e-9
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "bottom": HEIGHT - BOTTOM,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "roof": " ".join(f"{x(a)},{y(b)}" for a, b in roof),
        "ridge": {"x": x(ridge), "y": y(peak * 1e-9)},
        "line": {"x": x(intensity), "y": y(attainable)},
        "points": _spread(
            [
                {"name": name, "x": x(intensity), "y": y(rate), "rate": rate}
                for name, rate in rates.items()
            ]
        ),
        "x_ticks": [{"at": x(10.0**p), "text": f"{10.0**p:g}"} for p in _powers(x_low, x_high)],
        "y_ticks": [{"at": y(10.0**p), "text": f"{10.0**p:,g}"} for p in _powers(y_low, y_high)],
        "intensity": intensity,
        "attainable": attainable,
        "peak_gflops": peak * 1e-9,
        "bandwidth_gbs": bandwidth * 1e-9,
    }


def _spread(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the points with positions for their names, so that no name hides another."""
    points.sort(key=lambda point: float(point["y"]))
    free = 0.0
    for point in points:
        point["label_y"] = max(point["y"] + 4, free)
        free = point["label_y"] + 20
    return points


def _powers(low: float, high: float) -> range:
    """Return the exponents of the powers of ten between 10**low and 10**high."""
    return range(math.ceil(low), math.floor(high) + 1)
