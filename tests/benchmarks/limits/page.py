"""The page of limits: each tuned shape with its times, floor, peers and bars."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from statistics import geometric_mean
from typing import Any

from tests.benchmarks.limits.bars import LAYOUTS
from tests.benchmarks.limits.figures import (
    Row,
    Verdict,
    call_us,
    delivered,
    empty_us,
    floor_us,
    peers,
    times_as_fast,
    warm_us,
)
from tests.benchmarks.limits.shapes import FLOOR, SHAPES
from tests.benchmarks.tuned import compared, knobs, stated

TITLES = {
    "conv1d": "conv1d",
    "depthwise_b32": "Depthwise, batch of 32",
    "depthwise_b1": "Depthwise, batch of 1",
    "depthwise_s2_b32": "Depthwise with stride 2, batch of 32",
    "depthwise_s2_b1": "Depthwise with stride 2, batch of 1",
    "depthwise_NHWC_float16_b32": "Depthwise, channels last, float16, batch of 32",
    "depthwise_NHWC_bfloat16_b32": "Depthwise, channels last, bfloat16, batch of 32",
    "depthwise_NHWC_bfloat16_b1": "Depthwise, channels last, bfloat16, batch of 1",
    "depthwise_NHWC_bfloat16_s2_b32": "The same with stride 2, batch of 32",
    "depthwise_NHWC_ReLU6_b1": "Depthwise, channels last, with bias and ReLU6, batch of 1",
    "depthwise_NHWC_ReLU6_s2_b1": "The same with stride 2",
    "conv1d_channels": "conv1d, a kernel for each channel",
    "conv1d_channels_NWC": "conv1d, a kernel for each channel, channels last",
    "conv1d_gated": "conv1d between gates, a kernel for each channel, channels last",
    "conv1d_dense": "conv1d, dense",
    "conv1d_banks": "conv1d, banks of filters and several signals",
    "conv1d_long": "conv1d, a kernel as long as the signal for each channel",
}


def markdown(result: dict[str, Any], verdicts: list[Verdict]) -> str:
    device = result["runs"][0]["device"]
    rows = {row["name"]: row for row in result["rows"]}
    measured = [row for row in rows.values() if "error" not in row]
    lines = [f"# Limits: {device['name']}", "", *origin(result, measured), ""]
    lines += [_protocol(device["name"]), "", *bars(verdicts)]
    for group, shapes in groupby(SHAPES[device["kind"]], key=lambda shape: shape.group):
        found = [rows[shape.name] for shape in shapes if shape.name in rows]
        if found:
            lines += ["", f"## {TITLES[group]}", "", *_group(group, found, device["name"])]
    return "\n".join(lines) + "\n"


def origin(result: dict[str, Any], measured: list[Row]) -> list[str]:
    """Return the lines with a result's commands, its note, and the device and versions of each
    run that still has a row."""
    versions = {row["run"]: row["best"]["versions"] for row in measured}
    runs = {n: run for n, run in enumerate(result["runs"]) if n in versions}
    commands = list(dict.fromkeys(run["command"] for run in runs.values()))
    lines = [*(f"    {command}" for command in commands), ""]
    if len(runs) > 1:
        lines += [
            f"Measured in {len(runs)} runs. What a row compares was measured in one of them.",
            "",
        ]
    if note := result.get("note"):
        lines += [*note, ""]
    for number, run in runs.items():
        mine = [row for row in measured if row["run"] == number]
        trials = sum(row["trials"] for row in mine)
        seconds = sum(row["job_seconds"] for row in mine)
        lines.append(
            ("- " if len(runs) > 1 else "")
            + f"{stated(run, versions[number])} {len(mine)} shapes, {trials} trials, "
            f"{seconds / 60:.0f} minutes."
        )
    return lines


def _protocol(device: str) -> str:
    if device in FLOOR:
        flops, bandwidth = FLOOR[device]
        floor = f"{flops * 1e-12:g} TFLOP/s or bytes at {bandwidth * 1e-12:g} TB/s"
    else:
        floor = "the peak or bytes at the peak bandwidth"
    return (
        "Each shape is tuned by `xgb` from an empty database. Times are medians in µs of a round "
        "in which all of one row take turns; on a CPU the library as delivered, and each group of "
        "peers, has a process of its own: warm, inputs in the cache if they fit; cold after the "
        "cache was flushed; call is `library(x, w, out=y)` from Python, with which peers that are "
        "called from Python are compared; delivered is how long that call takes in a fresh process "
        "that loads the stored library, by what is stored. Errors are max\\|y - ref\\| / "
        "max\\|ref\\| against float64, beside what the shape allows. The floor is the largest of "
        f"float32 operations at {floor}, and the empty kernel; every tap counts, also those that "
        "only meet padding, so what skips them or multiplies on tensor cores may pass below it, as "
        "may what stays in the cache. A peer that is wrong by more than is allowed is listed and "
        "not compared with."
    )


def bars(verdicts: list[Verdict]) -> list[str]:
    """Return a table of the bars that says whether each is reached, and the names of the bars
    without a measured shape."""
    lines = ["## Bars", "", "| bar | measured | |", "|---|---|---|"]
    for verdict in (each for each in verdicts if not each.is_unknown):
        value = "" if verdict.value is None else f"{verdict.value:.2f} {verdict.bar.figure}"
        value += f" ({verdict.of})" if verdict.of else ""
        lines.append(f"| {verdict.bar.says} | {value} | {verdict.state} |")
    unknown = [verdict.bar.says for verdict in verdicts if verdict.is_unknown]
    return lines + (["", f"Not measured: {'; '.join(unknown)}."] if unknown else [])


def _group(group: str, rows: list[Row], device: str) -> list[str]:
    layouts = group.startswith("depthwise")
    pattern = LAYOUTS if layouts else "*"
    against = "PyTorch's faster layout" if layouts else "the fastest peer"
    lines = [
        "| shape | best, warm | cold | call | delivered | threads | empty kernel | error | allowed "
        f"| floor | × floor | {against} | × as fast | found at trial | configuration |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    measured = [row for row in rows if "error" not in row]
    lines += [_line(row, device, pattern) for row in measured]
    lines += [_mean(measured, pattern, against)] if measured else []
    lines += [f"- {row['name']}: no best. {row['error']}" for row in rows if "error" in row]
    lines += ["", "Everything that a best was compared with, and trials:", ""]
    lines += [details(row) for row in measured]
    return lines


def _line(row: Row, device: str, pattern: str) -> str:
    best, floor, faster = row["best"], floor_us(row, device), times_as_fast(row, pattern)
    beside = peers(row, pattern)
    found = "default, not tried" if row["found_at"] is None else f"{row['found_at']}"
    cells: Iterable[str] = (
        row["name"],
        f"**{warm_us(row):.2f}**",
        f"{best['timing']['cold']['median_us']:.2f}",
        _if_any(call_us(row)),
        _if_any(delivered(row)),
        str(best.get("threads") or ""),
        f"{empty_us(row):.2f}",
        f"{best['max_error']:.1e}",
        f"{row['workload']['max_error']:.0e}",
        _number(floor),
        _number(floor and warm_us(row) / floor),
        f"{beside[0]['name']} {beside[0]['time_us']:.2f}" if beside else "not measured",
        _number(faster),
        f"{found} of {row['trials']}",
        f"`{knobs(best['config'])}`",
    )
    return f"| {' | '.join(cells)} |"


def _mean(rows: list[Row], pattern: str, against: str) -> str:
    ratios = [ratio for row in rows if (ratio := times_as_fast(row, pattern)) is not None]
    if not ratios:
        return f"\nNot compared with {against}: none was measured."
    return (
        f"\nGeometric mean over {len(ratios)} of {len(rows)} shapes: {geometric_mean(ratios):.2f} "
        f"times as fast as {against}; the least is {min(ratios):.2f}."
    )


def details(row: Row) -> str:
    """Return a line with all baselines of a best and the counts of its trials."""
    beside = ", ".join(compared(baseline) for baseline in row["best"]["baselines"])
    templates = ", ".join(f"{name} {time:.2f}" for name, time in row["by_template"].items())
    failed = ", ".join(f"{count} {status}" for status, count in row["failed"].items())
    return (
        f"- {row['name']}: {beside}. Fastest trial of each template: {templates}. "
        f"{row['trials']} trials, {row['trials_per_second']:.1f} a second"
        + (f", of which failed {failed}." if failed else ".")
    )


def _if_any(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
