"""Shapes on which search strategies are replayed. The strategies' constants and the rankers'
training are chosen on some shapes. The page's bars are measured on the others."""

from __future__ import annotations

from typing import Any

import templates
from templates.workload import Workload
from tests.benchmarks.strategies.recording import Known, load, names, samples

Shapes = dict[str, tuple[str, dict[str, Any]]]

CHOSEN_ON: dict[str, Shapes] = {
    "cuda": {
        "conv1d-16384x32": ("conv1d", {"M": 16384, "N": 32}),
        "conv1d-1.5Mx127": ("conv1d", {"M": 1_500_000, "N": 127, "mode": "valid"}),
        "depthwise-96x56x56k7-nhwc-bf16": (
            "depthwise_conv2d",
            {"B": 32, "C": 96, "H": 56, "W": 56, "K": 7, "layout": "NHWC", "dtype": "bfloat16"},
        ),
        "depthwise-384x14x14k3": (
            "depthwise_conv2d",
            {"B": 32, "C": 384, "H": 14, "W": 14, "K": 3},
        ),
        "depthwise-128x56x56k31": (
            "depthwise_conv2d",
            {"B": 32, "C": 128, "H": 56, "W": 56, "K": 31},
        ),
        "conv1d-1Mx2047": ("conv1d", {"M": 1_000_000, "N": 2047, "mode": "valid"}),
        "conv1d-4096x4096": ("conv1d", {"M": 4096, "N": 4096}),
        "conv1d-2048x8192x4-bf16": (
            "conv1d",
            {
                "C": 2048, "M": 8192, "N": 4, "mode": "causal", "kind": "correlate",
                "dtype": "bfloat16", "bias": True, "activation": "silu",
            },
        ),
        "depthwise-1152x7x7k5": ("depthwise_conv2d", {"B": 32, "C": 1152, "H": 7, "W": 7, "K": 5}),
        "depthwise-72x56x56k5s2": (
            "depthwise_conv2d",
            {"B": 32, "C": 72, "H": 56, "W": 56, "K": 5, "stride": 2},
        ),
    },
    "cpu": {
        "conv1d-1024x64": ("conv1d", {"M": 1024, "N": 64}),
        "conv1d-2048x101": ("conv1d", {"M": 2048, "N": 101, "mode": "valid"}),
        "depthwise-7x7k5": ("depthwise_conv2d", {"B": 2, "C": 4, "H": 7, "W": 7, "K": 5}),
        "depthwise-14x14k7": ("depthwise_conv2d", {"B": 1, "C": 8, "H": 14, "W": 14, "K": 7}),
        "conv1d-8192x31": ("conv1d", {"M": 8192, "N": 31, "mode": "same"}),
        "depthwise-32x28x28k5": (
            "depthwise_conv2d",
            {"B": 1, "C": 32, "H": 28, "W": 28, "K": 5},
        ),
    },
}  # fmt: skip
JUDGED_ON: dict[str, Shapes] = {
    "cuda": {
        "conv1d-648x123-f16": (
            "conv1d",
            {"M": 648, "N": 123, "mode": "valid", "dtype": "float16"},
        ),
        "depthwise-1280x7x7k5s2-f16": (
            "depthwise_conv2d",
            {"B": 32, "C": 1280, "H": 7, "W": 7, "K": 5, "stride": 2, "dtype": "float16"},
        ),
        "conv1d-287724x990-bf16": (
            "conv1d",
            {"M": 287_724, "N": 990, "mode": "same", "dtype": "bfloat16"},
        ),
        "depthwise-768x28x28k21s2-bf16": (
            "depthwise_conv2d",
            {"B": 8, "C": 768, "H": 28, "W": 28, "K": 21, "stride": 2, "dtype": "bfloat16"},
        ),
        "conv1d-1536x1465x4": (
            "conv1d",
            {
                "C": 1536, "M": 1465, "N": 4, "mode": "causal", "kind": "correlate", "bias": True,
            },
        ),
        "conv1d-16x1to128x44079x10s5": (
            "conv1d",
            {
                "B": 16, "C": 1, "F": 128, "M": 44_079, "N": 10, "stride": 5, "mode": "valid",
                "kind": "correlate",
            },
        ),
        "depthwise-24x14x14k5-nhwc": (
            "depthwise_conv2d",
            {"B": 8, "C": 24, "H": 14, "W": 14, "K": 5, "layout": "NHWC", "max_error": 1e-3},
        ),
        "conv1d-528003x9589": (
            "conv1d",
            {"M": 528_003, "N": 9589, "mode": "full", "max_error": 1e-3},
        ),
        "depthwise-640x14x14k21s2-nhwc-relu6": (
            "depthwise_conv2d",
            {
                "B": 32, "C": 640, "H": 14, "W": 14, "K": 21, "stride": 2, "layout": "NHWC",
                "bias": True, "activation": "relu6",
            },
        ),
        "conv1d-512x2276x4-silu": (
            "conv1d",
            {
                "C": 512, "M": 2276, "N": 4, "mode": "causal", "kind": "correlate",
                "activation": "silu",
            },
        ),
    },
    "cpu": {
        "conv1d-5665x6": ("conv1d", {"M": 5665, "N": 6}),
        "depthwise-480x28x28k21s2": (
            "depthwise_conv2d",
            {"B": 1, "C": 480, "H": 28, "W": 28, "K": 21, "stride": 2},
        ),
        "conv1d-65102x2198-causal": ("conv1d", {"M": 65_102, "N": 2198, "mode": "causal"}),
        "depthwise-1280x7x7k7s2-nhwc": (
            "depthwise_conv2d",
            {
                "B": 1, "C": 1280, "H": 7, "W": 7, "K": 7, "stride": 2, "layout": "NHWC",
                "max_error": 1e-3,
            },
        ),
    },
}  # fmt: skip
"""The first shapes of ``predicted.shapes.to_search``, listed before any was measured."""


def listed() -> list[tuple[str, str]]:
    """Return (kind of device, name) of each shape, those of ``JUDGED_ON`` first."""
    return [
        (kind, name)
        for shapes in (JUDGED_ON, CHOSEN_ON)
        for kind in shapes
        for name in shapes[kind]
    ]


def workload(operator: str, fields: dict[str, Any]) -> Workload:
    return templates.operator(operator).workload.model_validate(fields)


def recorded(kind: str, name: str) -> Known:
    """Return a shape's recording: of the whole space if there is one, else of a part of it."""
    operator, fields = (CHOSEN_ON[kind] | JUDGED_ON[kind])[name]
    if name in names():
        return load(name)
    return samples()[f"{kind} {workload(operator, fields).key}"]
