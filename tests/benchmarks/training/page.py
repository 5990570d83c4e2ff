"""The page of gradients."""

from __future__ import annotations

from statistics import geometric_mean
from typing import Any

DIRECTIONS = ("forward", "backward_input", "backward_weight")
AIMS = (
    ("96×56² k7 backward_weight", 25.0),
    ("96×56² k7 float32 backward_weight", 40.0),
    ("96×56² k7 backward_input", 14.0),
)


def markdown(result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    rows = {name: layer(result["rows"], name) for name in names(result["rows"])}
    whole = {name: row for name, row in rows.items() if row["times"] is not None}
    lines = [
        f"# Gradients: {result['device']}",
        "",
        *(f"    {line}" for line in result["commands"]),
        "",
        f"{result['date']}, {versions}. Batches of 32, channels last, bfloat16 unless a row",
        "says otherwise. Each time is the median of replays of a CUDA graph of copies of one",
        "call, warm, in µs, all in one process; each of ours was checked against float64. Ours",
        "are the fastest of sampled configurations, not of a search; those of forward kernels, and",
        "of input gradients at stride 1, which are forward kernels too, are the best of",
        "[h200.md](h200.md). PyTorch's, in brackets, are of `aten::convolution` and",
        "`aten::convolution_backward` with one output, in its faster layout; its sum is of the",
        "layout in which that is smaller. What has a dash was not measured.",
        *result.get("notes", []),
        "",
        "| layer | forward | input gradient | weight gradient | sum | PyTorch's | times as fast |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        ours = " | ".join(_ratio(row["ours"][each], row["pytorch"][each]) for each in DIRECTIONS)
        total = "–" if row["sum"] is None else f"{row['sum']:.1f}"
        times = "–" if row["times"] is None else f"**{row['times']:.2f}**"
        lines.append(
            f"| {name} | {ours} | {total} | {row['fastest']:.1f} {row['layout']} | {times} |"
        )
    weights = {
        name: min(row["pytorch"]["backward_weight"].values()) / row["ours"]["backward_weight"]
        for name, row in rows.items()
        if row["ours"]["backward_weight"] and row["pytorch"]["backward_weight"]
    }
    if weights:
        slowest = min(weights, key=lambda name: weights[name])
        lines += [
            "",
            f"Weight gradients alone, {len(weights)} layers: geometric mean "
            f"{geometric_mean(weights.values()):.2f} times as fast as PyTorch's faster layout, "
            f"smallest {weights[slowest]:.2f} ({slowest}).",
        ]
    for title, ends in (("stride 1", False), ("stride 2", True)):
        group = [
            row["times"]
            for name, row in whole.items()
            if name.endswith(" s2") == ends and "float32" not in name
        ]
        if group:
            lines += [
                "",
                f"bfloat16, {title}, {len(group)} layers: geometric mean "
                f"{geometric_mean(group):.2f}, smallest {min(group):.2f}.",
            ]
    lines += ["", "| aim | µs at most | measured |", "|---|---|---|"]
    for key, most in AIMS:
        found = fastest_of(result["rows"].get(key, {"ours": []}))
        said = "not measured" if found is None else f"{found:.1f}"
        lines.append(f"| {key} | {most:.0f} | {said} |")
    return "\n".join(lines) + "\n"


def names(rows: dict[str, Any]) -> list[str]:
    """Of the layers, in their order."""
    return list(dict.fromkeys(key.rpartition(" ")[0] for key in rows))


def layer(rows: dict[str, Any], name: str) -> dict[str, Any]:
    """Times of the directions, their sums, and PyTorch's layout with the smaller sum."""
    found = {each: rows.get(f"{name} {each}") for each in DIRECTIONS}
    ours = {each: fastest_of(row) if row else None for each, row in found.items()}
    layouts = {
        layout: sum(row["pytorch"][layout] for row in found.values() if row)
        for layout in ("NCHW", "NHWC")
    }
    layout = min(layouts, key=lambda each: layouts[each])
    known = [time for time in ours.values() if time is not None]
    total = sum(known) if len(known) == len(DIRECTIONS) else None
    return {
        "ours": ours,
        "pytorch": {each: row["pytorch"] if row else None for each, row in found.items()},
        "sum": total,
        "layout": layout,
        "fastest": layouts[layout],
        "times": layouts[layout] / total if total else None,
    }


def fastest_of(row: dict[str, Any]) -> float | None:
    return min((each["time_us"] for each in row["ours"]), default=None)


def _ratio(ours: float | None, pytorch: dict[str, float] | None) -> str:
    if ours is None or pytorch is None:
        return "–"
    return f"{ours:.1f} ({min(pytorch.values()):.1f})"
