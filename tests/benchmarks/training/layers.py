"""The layers whose gradients are measured: those of the page of limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.benchmarks.limits.shapes import LAYERS, STRIDE_2

LIMITS = Path(__file__).parents[3] / "docs" / "benchmarks" / "h200.json"
DIRECTIONS = ("forward", "backward_input", "backward_weight")


def layers() -> dict[str, dict[str, Any]]:
    """Fields by name."""
    found = {}
    for stride, shapes in ((1, LAYERS), (2, STRIDE_2)):
        for channels, size, kernel in shapes:
            fields = {"B": 32, "C": channels, "H": size, "W": size, "K": kernel, "stride": stride}
            name = f"{channels}×{size}² k{kernel}{' s2' if stride == 2 else ''}"
            found[name] = {**fields, "layout": "NHWC", "dtype": "bfloat16"}
    found["96×56² k7 float32"] = found["96×56² k7"] | {"dtype": "float32"}
    return found


def best_forward(name: str) -> dict[str, Any] | None:
    """The configuration that a search found for the forward layer, by the page of limits."""
    if "float32" in name:
        return None
    stride = " s2" if name.endswith(" s2") else ""
    known = f"depthwise NHWC bfloat16{stride} B=32 {name.removesuffix(' s2')}"
    rows = json.loads(LIMITS.read_text())["rows"]
    found = (row["best"]["config"] for row in rows if row["name"] == known and "best" in row)
    return next(found, None)
