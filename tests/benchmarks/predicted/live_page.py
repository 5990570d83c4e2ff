"""The page on predictions beside searches of the same shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from tests.benchmarks.limits.bars import Bar
from tests.benchmarks.limits.figures import Row, Verdict, held, peers
from tests.benchmarks.limits.page import bars, origin
from tests.benchmarks.predicted.live import (
    PYTORCH,
    as_fast_as_pytorch,
    as_fast_as_tuned,
    predicted_us,
    tuned,
)
from tests.benchmarks.tuned import knobs

BARS: tuple[tuple[Bar, Callable[[Row], float | None]], ...] = (
    (
        Bar(
            "geometric mean of 0.85 of the speed that a search of 256 trials finds",
            "*", "× as fast", 0.85, "least", mean=True,
        ),
        as_fast_as_tuned,
    ),
    (Bar("none slower than PyTorch", "*", "× as fast", 1, "least"), as_fast_as_pytorch),
)  # fmt: skip


def verdicts(result: dict[str, Any]) -> list[Verdict]:
    """Return whether a result reaches each bar."""
    return [_verdict(bar, figure, result) for bar, figure in BARS]


def markdown(result: dict[str, Any]) -> str:
    rows = result["rows"]
    measured = [row for row in rows if "error" not in row]
    failed = [row for row in rows if "error" in row]
    lines = [
        f"# Predictions beside searches: {result['runs'][0]['device']['name']}",
        "",
        *origin(result, measured),
        "",
        *bars(verdicts(result)),
        "",
        "Shapes are drawn by a seed; no ranker of the package has learnt from their lengths, or "
        "from their planes with that kernel (`tests/benchmarks/predicted/shapes.py`). "
        "`match=predicted` answers for each from an empty database; then the same worker searches, "
        "knowing the prediction's trials. Times are medians in µs of the search's last round, in "
        "which the prediction, the search's fastest and, on a GPU, PyTorch's convolutions take "
        "turns; PyTorch's is its faster layout. The worst comes first.",
        "",
        *_answers(measured),
        "",
        "| shape | predicted | µs | tuned | µs | × as fast as tuned | PyTorch | µs "
        "| × as fast as PyTorch | timed | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *map(_line, measured),
        "",
        *(f"- {row['name']}: not measured. {row['error']}" for row in failed),
    ]
    return "\n".join(lines) + "\n"


def _verdict(bar: Bar, figure: Callable[[Row], float | None], result: dict[str, Any]) -> Verdict:
    measured = [row for row in result["rows"] if "error" not in row]
    found = {row["name"]: value for row in measured if (value := figure(row)) is not None}
    if not found:
        return Verdict(bar, "not measured")
    verdict = held(bar, found)
    if len(found) == result["shapes"]:
        return verdict
    return replace(verdict, state=f"{verdict.state} by {len(found)} of {result['shapes']} shapes")


def _answers(measured: list[Row]) -> list[str]:
    seconds = [row["predicted"]["seconds"] for row in measured]
    if not seconds:
        return []
    return [
        f"From order to answer: {median(seconds):.1f} s (median), at most {max(seconds):.1f} s. "
        "The first answer of a run waits for the worker's processes, too."
    ]


def _line(row: Row) -> str:
    found, best, beside = row["predicted"], tuned(row), peers(row, PYTORCH)
    as_fast = as_fast_as_pytorch(row)
    cells = (
        row["name"],
        f"`{knobs(found['config'])}`",
        f"**{predicted_us(row):.2f}**",
        "the same" if best["config"] == found["config"] else f"`{knobs(best['config'])}`",
        f"{best['median_us']:.2f}",
        f"**{as_fast_as_tuned(row):.2f}**",
        *((beside[0]["name"], f"{beside[0]['time_us']:.2f}") if beside else ("not measured", "")),
        "" if as_fast is None else f"{as_fast:.2f}",
        str(found["trials"]),
        f"{found['seconds']:.1f}",
    )
    return f"| {' | '.join(cells)} |"
