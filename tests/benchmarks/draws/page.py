"""The page on randomly drawn shapes."""

from __future__ import annotations

from math import inf
from statistics import geometric_mean
from typing import Any

from tests.benchmarks.limits.figures import Row, call_us, peers, times_as_fast, warm_us
from tests.benchmarks.limits.page import details, origin
from tests.benchmarks.tuned import knobs


def worst_first(rows: list[Row]) -> list[Row]:
    """Return the rows without a best first, then the others, from the least to the greatest
    speed-up over the fastest peer."""
    return sorted(rows, key=_times)


def markdown(result: dict[str, Any]) -> str:
    rows = result["rows"]
    measured = [row for row in rows if "error" not in row]
    lines = [
        f"# Shapes drawn by a seed: {result['runs'][0]['device']['name']}",
        "",
        *origin(result, measured),
        "",
        "Lengths are log-uniform, modes and kinds take turns (`tests/benchmarks/draws/shapes.py`). "
        "Each shape is tuned by `xgb` from an empty database. Times are medians in µs of a round "
        "in which all of one row take turns; call is `library(x, w, out=y)` from Python, with "
        "which peers that are called from Python are compared. The fastest peer is the one beside "
        "which the best fares worst, by kernels or by calls. The worst comes first.",
        "",
        *_counted(measured),
        "",
        "| shape | template | best, warm | call | the fastest peer | µs | × as fast "
        "| configuration |",
        "|---|---|---|---|---|---|---|---|",
        *map(_line, measured),
        "",
        *(f"- {row['name']}: no best. {row['error']}" for row in rows if "error" in row),
        *map(details, measured),
    ]
    return "\n".join(lines) + "\n"


def _times(row: Row) -> float:
    if "error" in row:
        return -inf
    times = times_as_fast(row)
    return inf if times is None else times


def _counted(measured: list[Row]) -> list[str]:
    ratios = [times for row in measured if (times := times_as_fast(row)) is not None]
    if not ratios:
        return ["None was compared with a peer."]
    slower = sum(times < 1 for times in ratios)
    return [
        f"**{slower} of {len(ratios)} shapes are slower than their fastest peer**; the geometric "
        f"mean is {geometric_mean(ratios):.2f} times as fast, the least {min(ratios):.2f}."
    ]


def _line(row: Row) -> str:
    best, call, times = row["best"], call_us(row), times_as_fast(row)
    beside = sorted(peers(row), key=lambda peer: float(peer["speedup"]))
    cells = (
        row["name"],
        best["config"]["template"],
        f"**{warm_us(row):.2f}**",
        "" if call is None else f"{call:.2f}",
        *((beside[0]["name"], f"{beside[0]['time_us']:.2f}") if beside else ("not measured", "")),
        "" if times is None else f"{times:.2f}",
        f"`{knobs(best['config'])}`",
    )
    return f"| {' | '.join(cells)} |"
