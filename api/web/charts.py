"""Where bars, axes and points lie; the templates draw them as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDE = (250, 460, 130)  # widths of a bar chart's three parts: labels, bars, figures
NARROW = (150, 270, 110)
BAR, GAP = 18, 8
WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 640, 380, 64, 46, 20, 16


@dataclass(frozen=True)
class Bar:
    name: str
    kind: str  # the class it is styled by
    value: float | None
    figure: str  # the value as text, or why there is none
    title: str = ""
    mark: float | None = None  # another figure on the same scale


@dataclass(frozen=True)
class Bars:
    """A bar for each, on one scale, labels left and figures right."""

    rows: list[dict[str, Any]]
    ticks: list[dict[str, Any]]
    width: int
    height: int


def bars(
    given: Sequence[Bar], widths: tuple[int, int, int] = WIDE, *, logarithmic: bool = False
) -> Bars:
    """Bars from zero; or on a logarithmic scale from the power of ten below the least."""
    label, plot, _ = widths
    values = [v for bar in given for v in (bar.value, bar.mark) if v is not None and v > 0]
    most = max(values, default=1.0)
    low = math.floor(math.log10(min(values, default=1.0)))
    high = max(math.ceil(math.log10(most)), low + 1)

    def along(value: float) -> float:
        if not logarithmic:
            return plot * value / most
        return plot * (math.log10(value) - low) / (high - low)

    rows = []
    for number, bar in enumerate(given):
        length = along(bar.value) if bar.value else 0.0
        beyond = max(length, along(bar.mark) + 6) if bar.mark else length
        rows.append(
            {
                "bar": bar,
                "y": number * (BAR + GAP),
                "x": label,
                "length": round(max(length, 1.5), 1) if bar.value else 0,
                "height": BAR,
                "text_x": round(label + beyond + 6, 1),
                "mark_x": round(label + along(bar.mark), 1) if bar.mark else None,
            }
        )
    powers = range(low, high + 1, -(-(high - low) // 6)) if logarithmic else range(0)
    ticks = [
        {"x": round(label + along(10.0**p), 1), "text": f"{10.0**p:,.{max(-p, 0)}f}"}
        for p in powers
    ]
    height = len(given) * (BAR + GAP) + (22 if ticks else 0)
    return Bars(rows, ticks, sum(widths), height)


def roofline(
    limits: Mapping[str, Any], flops: int, moved: int, times: Mapping[str, float]
) -> dict[str, Any] | None:
    """GFLOP/s against FLOP/byte of compulsory traffic, both logarithmic: the device's roof, and a
    point for each time in µs. None where the device's peaks are unknown.

    Williams, Waterman, Patterson, "Roofline", 2009."""
    peak, bandwidth = limits.get("peak_flops"), limits.get("peak_bandwidth")
    if not (peak and bandwidth and flops and moved and times):
        return None
    intensity, ridge = flops / moved, peak / bandwidth
    rates = {name: flops / time * 1e-3 for name, time in times.items() if time > 0}
    x_low = math.floor(math.log10(min(intensity, ridge))) - 0.3
    x_high = math.ceil(math.log10(max(intensity, ridge))) + 0.3
    y_high = math.log10(peak * 1e-9) + 0.35
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
    """With places for their names, which hide no other."""
    points.sort(key=lambda point: float(point["y"]))
    free = 0.0
    for point in points:
        point["label_y"] = max(point["y"] + 4, free)
        free = point["label_y"] + 15
    return points


def _powers(low: float, high: float) -> range:
    return range(math.ceil(low), math.floor(high) + 1)
