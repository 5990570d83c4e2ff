"""The page on search strategies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.benchmarks.strategies.compare import (
    ALONE,
    ALONE_WARM,
    EARLIER_TRIALS,
    GUIDED,
    WARM,
    Row,
)
from tests.benchmarks.strategies.searches import found_after
from tuner.plan.warm_start import MAX_DISTANCE, WORKLOADS

AT_MOST = 0.5
"""The bar: the largest share that a search may need of the other search's trials."""
STRATEGIES = ("random", "evolutionary", ALONE, ALONE_WARM, GUIDED, WARM)


def markdown(
    rows: Sequence[Row],
    live: Sequence[dict[str, Any]],
    command: str,
    recorded: Sequence[str],
    seeds: int,
    picture: str,
) -> str:
    judged = [row for row in rows if row.judged]
    chosen = [row for row in rows if not row.judged]
    lines = [
        "# Search strategies",
        "",
        f"    {command}",
        "",
        f"Trials until one is within 5 % of the fastest that is recorded, median of {seeds} seeds, "
        "in brackets what was enough for nine of ten. Nothing is built for this page: "
        "`tests/benchmarks/strategies/replay.py` answers each proposal from a recording, a job's "
        f"batch at a time. Recorded on: {'; '.join(recorded)}.",
        "",
        "On a CPU, small spaces were timed as a whole. Of larger ones a part was, which has a few "
        "values of each knob and all their combinations "
        "(`python -m tests.benchmarks.strategies sample`): what is fastest there is not the "
        "fastest of the whole space.",
        "",
        f"`{GUIDED}` begins with what a ranker expects that has not learnt from this shape or "
        "one like it: the package's if that holds for it, as for all left-out shapes, else one "
        f"trained for this page. `{ALONE}` knows nothing before its first trial. The warm ones are "
        f"told {EARLIER_TRIALS} trials of an earlier job of each of the nearest shapes of the same "
        f"operator on the same device, at most {WORKLOADS} within a distance of "
        f"{MAX_DISTANCE:g} (`tuner/plan/warm_start.py`), if there is one.",
        "",
        "## Left-out shapes",
        "",
        "They were drawn by a seed (`tests/benchmarks/predicted/shapes.py`) and recorded when all "
        "constants and rankers were fixed. Nothing was chosen on them.",
        "",
        *_table(judged),
        "",
        *_of_warm(judged),
        f"![Regret]({picture})",
        "",
        f"Bar: `{GUIDED}` needs at most half of what `{ALONE}` needs, for nine seeds of ten.",
        "",
        "| space | trials | share | |",
        "|---|---|---|---|",
        *_bars(judged),
        "",
        "## Shapes for choosing",
        "",
        "Constants of the search were chosen on some of these. On the others was chosen what "
        "rankers learn from, and how many trees they have "
        "([decision 046](../decisions/046-predictions.md)).",
        "",
        *_table(chosen),
        "",
        "## Whole spaces, searched on the device",
        "",
        "    python -m tests.benchmarks.strategies live NAME --target cuda --builders 16",
        "",
        "Trials until one is within 5 % of the fastest that any of these searches has seen, one "
        "number a seed, in the order of the seeds; – if the time was up before. The ranker has "
        "learnt from no shape like it.",
        "",
        "| space | configurations | fastest, µs | with a ranker | without | device |",
        "|---|---|---|---|---|---|",
        *map(_live, live),
        "",
        "## Recordings",
        "",
        "| space | recorded | within 5 % | fastest, µs | median, µs | failed |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {_named(r)} | {r.configurations} | {r.good} | {r.best_us:.2f} | "
            f"{r.median_us:.2f} | {r.failed} |"
        )
    return "\n".join(lines) + "\n"


def mean_curves(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return the regret of each strategy with a regret on all spaces: the geometric mean over
    these."""
    return {
        name: [float(each) for each in np.exp(np.mean(np.log([r.regret[name] for r in rows]), 0))]
        for name in STRATEGIES
        if all(name in row.regret for row in rows)
    }


def _table(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| space | " + " | ".join(STRATEGIES) + " |",
        "|---|" + "---|" * len(STRATEGIES),
    ]
    for row in rows:
        cells = " | ".join(_cell(row, name) for name in STRATEGIES)
        lines.append(f"| {_named(row)} | {cells} |")
    means = " | ".join(_mean(rows, name) for name in STRATEGIES)
    return [*lines, f"| geometric mean | {means} |"]


def _of_warm(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on the shapes with warm searches."""
    both = [row for row in rows if WARM in row.trials]
    if not both:
        return []
    cold, warm = (
        float(np.exp(np.mean(np.log([row.ninth(name) for row in both])))) for name in (GUIDED, WARM)
    )
    return [
        f"For nine seeds of ten of the {len(both)} shapes that have a near one, `{WARM}` needs "
        f"{warm:.1f} trials in the geometric mean, `{GUIDED}` {cold:.1f}.",
        "",
    ]


def _cell(row: Row, name: str) -> str:
    return f"**{row.median(name):g}** ({row.ninth(name)})" if name in row.trials else "–"


def _mean(rows: Sequence[Row], name: str) -> str:
    if not all(name in row.trials for row in rows):
        return "–"
    medians = np.exp(np.mean(np.log([row.median(name) for row in rows])))
    ninths = np.exp(np.mean(np.log([row.ninth(name) for row in rows])))
    return f"**{medians:.1f}** ({ninths:.1f})"


def _bars(rows: Sequence[Row]) -> list[str]:
    ways = [[row.ninth(name) for row in rows] for name in (GUIDED, ALONE)]
    means = [float(np.exp(np.mean(np.log(way)))) for way in ways]
    lines = [_bar(_named(row), *pair) for row, *pair in zip(rows, *ways, strict=True)]
    return [*lines, _bar("geometric mean", *means)]


def _bar(name: str, guided: float, alone: float) -> str:
    held = "held" if guided <= AT_MOST * alone else "**missed**"
    return f"| {name} | {guided:.3g} of {alone:.3g} | {guided / alone:.2f} | {held} |"


def _named(row: Row) -> str:
    return f"{row.kind} {row.name}"


def _live(search: dict[str, Any]) -> str:
    shape = " ".join(f"{k}={v}" for k, v in search["workload"].items())
    fastest = min(t for run in search["runs"] for t in run["times"] if t is not None)
    ways = [
        ", ".join("–" if n is None else str(n) for n in found_after(search, guided=guided))
        for guided in (True, False)
    ]
    device = f"{search['device']['name']}, {search['date']}"
    return (
        f"| {search['operator']} {shape} | {search['configurations']} | {fastest:.2f} | "
        f"{ways[0]} | {ways[1]} | {device} |"
    )
