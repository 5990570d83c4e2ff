"""The page on gradients of layers."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from tests.benchmarks.limits.bars import Bar
from tests.benchmarks.limits.figures import Row, Verdict, held, peers, warm_us
from tests.benchmarks.limits.page import bars, details, origin
from tests.benchmarks.training.layers import CAUSAL, DIRECTIONS, FLOAT32, STRIDES, named
from tests.benchmarks.tuned import knobs

LAYOUTS = ("NCHW", "NHWC")
MOST = {"96×56² k7 input gradient": 14, "96×56² k7 weight gradient": 25, FLOAT32: 40, CAUSAL: 320}


@dataclass(frozen=True)
class Layer:
    """The times of a layer in µs: ours by direction, and PyTorch's by layout and direction."""

    ours: dict[str, float]
    pytorch: dict[str, dict[str, float]]

    @property
    def sum(self) -> float:
        return sum(self.ours.values())

    @property
    def layout(self) -> str:
        """The layout in which the sum of PyTorch's times is smaller."""
        return min(self.pytorch, key=lambda layout: sum(self.pytorch[layout].values()))

    @property
    def fastest(self) -> float:
        return sum(self.pytorch[self.layout].values())

    @property
    def times_as_fast(self) -> float:
        return self.fastest / self.sum


def layer(rows: dict[str, Row], name: str) -> Layer | None:
    """Return the times of a layer. Return None if a direction was not measured, or if there is no
    layout in which PyTorch was timed in all directions."""
    found = {direction: rows.get(f"{name} {direction}") for direction in DIRECTIONS.values()}
    measured = {each: row for each, row in found.items() if row and "error" not in row}
    pytorch = {
        layout: times
        for layout in LAYOUTS
        if len(times := _pytorch(measured, layout)) == len(DIRECTIONS)
    }
    if not pytorch:
        return None
    return Layer({each: warm_us(row) for each, row in measured.items()}, pytorch)


def _pytorch(rows: dict[str, Row], layout: str) -> dict[str, float]:
    """Return PyTorch's fastest time in a layout for each direction in which it was timed."""
    found = {each: peers(row, f"pytorch*{layout}") for each, row in rows.items()}
    return {each: beside[0]["time_us"] for each, beside in found.items() if beside}


def verdicts(result: dict[str, Any]) -> list[Verdict]:
    """Return whether a result reaches each bar."""
    rows = {row["name"]: row for row in result["rows"] if "error" not in row}
    found = []
    for name, most in MOST.items():
        bar = Bar(f"{name}: at most {most} µs", name, "µs", most)
        known = {name: warm_us(rows[name])} if name in rows else {}
        found.append(held(bar, known) if known else Verdict(bar, "not measured", is_unknown=True))
    says = "stride 1, all three: "
    mean = Bar(f"{says}geometric mean at least 4", "*", "× as fast", 4, "least", mean=True)
    least = Bar(f"{says}none below 1.2", "*", "× as fast", 1.2, "least")
    ratios = {name: each.times_as_fast for name in named(1) if (each := layer(rows, name))}
    for bar in (mean, least):
        whole = len(ratios) == len(named(1))
        state = f"not measured ({len(ratios)} of {len(named(1))} layers)"
        found.append(held(bar, ratios) if whole else Verdict(bar, state, is_unknown=not ratios))
    return found


def markdown(result: dict[str, Any]) -> str:
    rows = {row["name"]: row for row in result["rows"]}
    measured = [row for row in result["rows"] if "error" not in row]
    lines = [
        f"# Gradients: {result['runs'][0]['device']['name']}",
        "",
        *origin(result, measured),
        "",
        "Batches of 32, channels last, bfloat16 unless a row says otherwise. Each direction of "
        "each layer is tuned by `xgb` from an empty database. Times are warm medians in µs of a "
        "round in which the best and its peers take turns. PyTorch's, in brackets, are of its "
        "faster layout, by its own kernels or compiled (a gradient is "
        "`aten::convolution_backward` with one output); its sum is of the layout in which that "
        "is smaller.",
        "",
        *bars(verdicts(result)),
    ]
    for stride in STRIDES:
        lines += ["", f"## Stride {stride}", "", *_layers(rows, stride)]
    return "\n".join([*lines, "", "## Every row", "", *_each(result["rows"])]) + "\n"


def _layers(rows: dict[str, Row], stride: int) -> list[str]:
    lines = [
        f"| layer | {' | '.join(DIRECTIONS.values())} | sum | PyTorch's | times as fast |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for name in named(stride):
        found = layer(rows, name)
        if found is None:
            continue
        cells = [
            f"{time:.1f} ({min(known[each] for known in found.pytorch.values()):.1f})"
            for each, time in found.ours.items()
        ]
        ratios.append(found.times_as_fast)
        lines.append(
            f"| {name} | {' | '.join(cells)} | {found.sum:.1f} | "
            f"{found.fastest:.1f} {found.layout} | **{found.times_as_fast:.2f}** |"
        )
    if not ratios:
        return ["Not measured."]
    return [
        *lines,
        "",
        f"{len(ratios)} of {len(named(stride))} layers: geometric mean "
        f"{geometric_mean(ratios):.2f}, least {min(ratios):.2f}.",
    ]


def _each(rows: list[Row]) -> list[str]:
    measured = [row for row in rows if "error" not in row]
    return [
        "| row | best, warm | cold | error | found at trial | configuration |",
        "|---|---|---|---|---|---|",
        *map(_line, measured),
        "",
        *(f"- {row['name']}: no best. {row['error']}" for row in rows if "error" in row),
        *map(details, measured),
    ]


def _line(row: Row) -> str:
    best = row["best"]
    found = "default, not tried" if row["found_at"] is None else f"{row['found_at']}"
    cells = (
        row["name"],
        f"**{warm_us(row):.2f}**",
        f"{best['timing']['cold']['median_us']:.2f}",
        f"{best['max_error']:.1e}",
        f"{found} of {row['trials']}",
        f"`{knobs(best['config'])}`",
    )
    return f"| {' | '.join(cells)} |"
