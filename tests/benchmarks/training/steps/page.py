"""The page on training steps."""

from __future__ import annotations

from statistics import median, quantiles
from typing import Any

from tests.benchmarks.training.steps.curves import END, distance, end, own_distances, shift
from tests.benchmarks.training.steps.measured import IN_A_ROW, LESS_OVERHEAD, PYTORCH, TUNED, TURNS
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
        f"{IN_A_ROW} steps; medians, in brackets the tenth and the ninetieth percentile. The host "
        "has to launch some hundred kernels a step, and a busy one is slower at it than the GPU. "
        f"So steps are also timed in `torch.compile`'s mode {LESS_OVERHEAD}, in which CUDA graphs "
        "launch the network's kernels, and captured as one CUDA graph, which needs no host. The "
        "host's load is the mean number of runnable threads in the minute before, and the CPUs "
        "that other processes kept busy meanwhile.",
        "",
        *runs,
        "",
        "| network | PyTorch, ms | `optimize_`, ms | times as fast "
        f"| {LESS_OVERHEAD}: PyTorch, ms | `optimize_`, ms | times as fast "
        "| captured: PyTorch, ms | `optimize_`, ms | times as fast "
        "| bar | host's load; CPUs of others | graph breaks "
        "| depthwise of kernels, ms: PyTorch | `optimize_` | outputs and gradients tuned | run |",
        "|---" * 17 + "|",
        *(_times(row) for row in rows if "kernels" in row),
    ]
    with_curves = [row for row in rows if row.get("curves")]
    if with_curves:
        lines += ["", *_curves(with_curves)]
    for row in rows:
        if "report" in row:
            lines += ["", *_layers(row)]
    return "\n".join(lines) + "\n"


def _times(row: dict[str, Any]) -> str:
    shares = (
        f"{kernels['depthwise_ms']:.2f} of {kernels['total_ms']:.2f}"
        for kernels in (row["kernels"][PYTORCH], row["kernels"][TUNED])
    )
    report, host = row["report"], row["host"]
    bar = "" if row["device"] == "cpu" else f"{BARS.get(row['network'], '')}"
    return (
        f"| {row['name']} | {_both(row['ms'])} | {_both(row.get('less_overhead_ms'))} | "
        f"{_both(row.get('captured_ms'))} | {bar} | "
        f"{host['load']:.1f}; {host['others']:.1f} of {host['cpus']} | "
        f"{row['graphs'][TUNED]['breaks']} | {' | '.join(shares)} | "
        f"{report['tuned']} of {len(report['rows'])} | {row['run'] + 1} |"
    )


def _both(ms: dict[str, list[float]] | None) -> str:
    if ms is None:
        return " |  | "
    times = median(ms[PYTORCH]) / median(ms[TUNED])
    return f"{_spread_of(ms[PYTORCH])} | {_spread_of(ms[TUNED])} | **{times:.2f}**"


def _spread_of(samples: list[float]) -> str:
    low, *_, high = quantiles(samples, n=10, method="inclusive")
    return f"{median(samples):.2f} ({low:.2f}, {high:.2f})"


def _curves(rows: list[dict[str, Any]]) -> list[str]:
    kinds = rows[0]["curves"]["0"]
    theirs = "; ".join(name for name in kinds if name.startswith(PYTORCH))
    lines = [
        "## Losses",
        "",
        f"Of training from the same weights at a rate of {RATE} on {BATCHES} batches of random "
        "images with random labels. A seed draws weights, images and labels anew. PyTorch runs "
        f"it in {sum(name.startswith(PYTORCH) for name in kinds)} ways that are all right and "
        f"round differently: {theirs}. Two curves are apart by the mean over the steps of what "
        "their losses differ by. Each of PyTorch's curves has a distance, the mean of those from "
        "its other curves, and each of `optimize_`'s the mean of those from all of PyTorch's. The "
        "shift is by how much `optimize_`'s losses are higher than PyTorch's, in the mean over "
        f"the steps. The end is the mean loss of the last {END} steps.",
        "",
        "| network | seed | steps | first loss | distance of PyTorch's | of `optimize_`, compiled "
        "| eager | shift, compiled | eager | end of PyTorch's | of `optimize_`, compiled | eager |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += (
        f"| {row['name']} | {seed} | {_compared(curves)} |"
        for row in rows
        for seed, curves in row["curves"].items()
    )
    return lines


def _compared(curves: dict[str, list[float]]) -> str:
    theirs = {name: each for name, each in curves.items() if name.startswith(PYTORCH)}
    ours = [each for name, each in curves.items() if name.startswith(TUNED)]
    first = next(iter(theirs.values()))
    apart, ends = own_distances(theirs), [end(each) for each in theirs.values()]
    return " | ".join(
        (
            str(len(first)),
            f"{first[0]:.4f}",
            f"{min(apart):.1e} to {max(apart):.1e}",
            *(f"**{distance(each, theirs):.1e}**" for each in ours),
            *(f"{shift(each, theirs):+.1e}" for each in ours),
            f"{min(ends):.1e} to {max(ends):.1e}",
            *(f"{end(each):.1e}" for each in ours),
        )
    )


def _layers(row: dict[str, Any]) -> list[str]:
    """Return the section of a network: the seconds of each part, and the report's layers."""
    took = ", ".join(f"{name} {seconds:.0f}" for name, seconds in row["seconds"].items())
    lines = [
        f"## {row['name']}",
        "",
        f"Seconds: {took}.",
        "",
        "| layer | shape | calls | computed by | µs a call | PyTorch's µs a call |",
        "|---|---|---|---|---|---|",
    ]
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for each in row["report"]["rows"]:
        times = tuple(_number(each[name]) for name in ("time_us", "pytorch_us"))
        told = (each["shape"], each["template"] or each["by"], *times)
        alike.setdefault(told, []).append(each)
    for (shape, *others), layers in alike.items():
        more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
        calls = sum(each["calls"] for each in layers)
        lines.append(
            f"| {layers[0]['names'][0]}{more} | {shape} | {calls} | {' | '.join(others)} |"
        )
    return lines


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
