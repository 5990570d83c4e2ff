"""The page on training steps."""

from __future__ import annotations

from statistics import median, quantiles
from typing import Any

from tests.benchmarks.training.steps.curves import distance, spread
from tests.benchmarks.training.steps.measured import IN_A_ROW, PYTORCH, TUNED, TURNS
from tests.benchmarks.training.steps.step import BATCHES, RATE
from tests.benchmarks.tuned import stated

BARS = {"convnext_tiny": 1.2, "efficientnet_b0": 1.1}


def markdown(result: dict[str, Any]) -> str:
    rows = result["rows"]
    runs = [
        f"{number}. {stated(run, {})} `{run['command']}`"
        for number, run in enumerate(result["runs"], 1)
    ]
    lines = [
        "# Training steps, before and after",
        "",
        "Networks of timm's with random weights: forward, loss, backward and a fused AdamW step, "
        "channels last, bfloat16 autocast, compiled by `torch.compile`. PyTorch's own and the "
        f"same after `optimize_` with mode training in one process, in {TURNS} turns of "
        f"{IN_A_ROW} steps; medians, in brackets the tenth and the ninetieth percentile.",
        "",
        *runs,
        "",
        "| network | PyTorch, ms | `optimize_`, ms | times as fast | bar | graph breaks "
        "| depthwise of kernels, ms: PyTorch | `optimize_` | outputs and gradients tuned | run |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_times(row) for row in rows if "kernels" in row),
    ]
    with_curves = [row for row in rows if f"{PYTORCH}, eager" in row.get("curves", {})]
    if with_curves:
        lines += ["", *_curves(with_curves)]
    for row in rows:
        if "report" in row:
            lines += ["", *_layers(row)]
    return "\n".join(lines) + "\n"


def _times(row: dict[str, Any]) -> str:
    theirs, ours = (_spread_of(row["ms"][name]) for name in (PYTORCH, TUNED))
    times = median(row["ms"][PYTORCH]) / median(row["ms"][TUNED])
    shares = (
        f"{kernels['depthwise_ms']:.2f} of {kernels['total_ms']:.2f}"
        for kernels in (row["kernels"][PYTORCH], row["kernels"][TUNED])
    )
    report = row["report"]
    bar = "" if row["device"] == "cpu" else f"{BARS.get(row['network'], '')}"
    return (
        f"| {row['name']} | {theirs} | {ours} | **{times:.2f}** | {bar} | "
        f"{row['graphs'][TUNED]['breaks']} | {' | '.join(shares)} | "
        f"{report['tuned']} of {len(report['rows'])} | {row['run'] + 1} |"
    )


def _spread_of(samples: list[float]) -> str:
    low, *_, high = quantiles(samples, n=10, method="inclusive")
    return f"{median(samples):.2f} ({low:.2f}, {high:.2f})"


def _curves(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Losses",
        "",
        f"Of training from the same weights at a rate of {RATE} on {BATCHES} batches of random "
        "images with random labels, in turns. Two curves are apart by the mean over the steps of "
        "what their losses differ by. PyTorch's own are compiled, twice, and eager; ours are to "
        "be no further from PyTorch's than these are from each other.",
        "",
        "| network | steps | first loss | last loss: PyTorch | `optimize_` | PyTorch compiled, "
        "twice | PyTorch compiled and eager | `optimize_` twice | `optimize_` and PyTorch |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        curves = row["curves"]
        theirs = {name: each for name, each in curves.items() if name.startswith(PYTORCH)}
        ours = {name: each for name, each in curves.items() if name.startswith(TUNED)}
        twice = {name: theirs[name] for name in (PYTORCH, f"{PYTORCH} again")}
        first = curves[PYTORCH]
        lines.append(
            f"| {row['name']} | {len(first)} | {first[0]:.4f} | {first[-1]:.4f} | "
            f"{curves[TUNED][-1]:.4f} | {spread(twice):.1e} | {spread(theirs):.1e} | "
            f"{spread(ours):.1e} | **{distance(ours, theirs):.1e}** |"
        )
    return lines


def _layers(row: dict[str, Any]) -> list[str]:
    """What the report says, and how long the parts took."""
    took = ", ".join(f"{name} {seconds:.0f}" for name, seconds in row["seconds"].items())
    lines = [
        f"## {row['name']}",
        "",
        f"Seconds: {took}.",
        "",
        "| layer | shape | calls | computed by | µs | PyTorch's µs |",
        "|---|---|---|---|---|---|",
    ]
    for each in row["report"]["rows"]:
        times = (_number(each[name]) for name in ("time_us", "pytorch_us"))
        lines.append(
            f"| {each['names'][0]} | {each['shape']} | {each['calls']} | "
            f"{each['template'] or each['by']} | {' | '.join(times)} |"
        )
    return lines


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
