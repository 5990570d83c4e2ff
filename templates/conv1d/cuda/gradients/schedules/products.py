"""The CUDA sources of matrix products, and the values that fill them in for a gradient of dense
channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from templates.conv1d.cuda.gradients import products
from templates.conv1d.shape import extents
from templates.conv1d.workload import Conv1dWorkload
from templates.kernels.cuda_source import DERIVATIVE, ELEMENTS, derivative, elements, knobs, render
from templates.kernels.halves import HALVES

FACTORS, TILE, DIRECT, TENSOR = (
    Path(__file__).with_name(f"products{name}.cu") for name in ("", "_tile", "_direct", "_tensor")
)


def sources(config: dict[str, Any], source: Path) -> list[Path]:
    """Return the files of a product in order. The last is ``source``, the gradient's own file.
    ``source_text`` puts elements and halves before them."""
    multiply = TENSOR if config["multiplied_by"] == "warps" else DIRECT
    return [DERIVATIVE, FACTORS, multiply, TILE, source]


def source_text(config: dict[str, Any], values: dict[str, object], source: Path) -> str:
    """Return the whole source of a gradient, filled in."""
    halves = [HALVES] if config["multiplied_by"] == "warps" else []
    return render(values, *halves, ELEMENTS, *sources(config, source))


def substitutions(workload: Conv1dWorkload, config: dict[str, Any]) -> dict[str, object]:
    """Return the values that the files of a product are filled in with."""
    return {
        **knobs(config),
        **elements(workload.dtype, "cached", kept=False),
        **derivative(workload),
        "IS_COARSE": False,  # tensor cores round the factors, which takes most of max_error
        "TENSOR": config["multiplied_by"] == "warps",
        "WORDS": products.shared_words(config),
        "TYPE": "bf16" if workload.dtype == "bfloat16" else "f16",
        "PRODUCTS": 1,
        "LAST": workload.layout == "NWC",
        **extents(workload),
    }
