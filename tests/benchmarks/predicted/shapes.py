"""Randomly drawn shapes to learn from, and others to judge rankers by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError

import templates
from templates.workload import Workload
from tests.benchmarks.limits.shapes import LAYERS, STRIDE_2

LIVE_SEED, SEARCHED_SEED = 2, 5
RECORDED = 220
"""The default number of shapes to record. No shape for judging has the extents of one of them."""
TO_PREDICT = 40
"""The default number of shapes on which predictions are judged."""
MOST_FLOPS = {"cpu": 4e8, "cuda": 3e9}
MOST_FLOPS_OF_LONG = {"cpu": 4e8, "cuda": 5e10}
MOST_BYTES = {"cpu": 2e7, "cuda": 2e8}
"""The most operations and bytes of a shape, by kind of device: a shape must be checked and timed in
a fraction of a second. On a GPU, long kernels may have more operations, because transforms need
fewer of them."""
LAYER_PLANES = frozenset(
    (channels, size, kernel) for channels, size, kernel in (*LAYERS, *STRIDE_2)
)
"""Layers of other pages, as (channels, height and width, kernel). They are never drawn."""
EXTENTS = {"conv1d": ("M", "N"), "depthwise_conv2d": ("C", "H", "W", "K", "KH", "KW", "stride")}

Draw = Callable[[np.random.Generator, str], dict[str, Any]]


def to_learn(kind: str, count: int, draw: str = "all") -> list[Workload]:
    """Return ``count`` different shapes for a kind of device. Operators take turns.

    ``draw`` is one of ``DRAWS``. A larger ``count`` begins with the same shapes.
    """
    return _drawn(kind, count, *DRAWS[draw], unlike=set())


def to_judge(kind: str, count: int) -> list[Workload]:
    """Return ``count`` shapes as :func:`to_learn` does, but none with the extents of a recorded
    shape: one of the first ``RECORDED`` of "all" on this kind of device, or of any draw on a
    GPU."""
    return _drawn(kind, count, LIVE_SEED, DRAWS["all"][1], unlike=_extents_to_learn(kind))


def to_search(kind: str, count: int) -> list[Workload]:
    """Return ``count`` shapes to judge searches by, from all draws in turn.

    None has the extents of a shape to learn from, or of one of the first shapes to judge
    predictions by.
    """
    unlike = _extents_to_learn(kind) | {*map(extents, to_judge(kind, TO_PREDICT))}
    in_turn = [pair for _, operators in DRAWS.values() for pair in operators]
    return _drawn(kind, count, SEARCHED_SEED, in_turn, unlike=unlike)


def _extents_to_learn(kind: str) -> set[tuple[Any, ...]]:
    learnt = to_learn(kind, RECORDED)
    for draw in DRAWS:
        learnt += to_learn("cuda", RECORDED, draw)
    return {*map(extents, learnt)}


def extents(workload: Workload) -> tuple[Any, ...]:
    """Return an operator's name and the extents. Shapes with equal extents count as alike, whatever
    their batch, layout, dtype and epilogue."""
    fields = workload.model_dump()
    return workload.operator, *(fields.get(name) for name in EXTENTS[workload.operator])


def _drawn(
    kind: str,
    count: int,
    seed: int,
    operators: Sequence[tuple[str, Draw]],
    *,
    unlike: set[tuple[Any, ...]],
) -> list[Workload]:
    rng = np.random.default_rng([seed, len(kind)])
    found: dict[str, Workload] = {}
    turn = 0
    while len(found) < count:
        operator, draw = operators[turn % len(operators)]
        fields = draw(rng, kind)
        try:
            workload = templates.operator(operator).workload.model_validate(fields)
        except ValidationError:  # for example, a kernel longer than its signal
            continue
        most = (MOST_FLOPS_OF_LONG if draw is _long_conv1d else MOST_FLOPS)[kind]
        small = workload.flops <= most and workload.bytes <= MOST_BYTES[kind]
        if small and not _is_a_layer(fields) and extents(workload) not in unlike:
            found[workload.key] = workload
            turn += 1
    return list(found.values())


def _is_a_layer(fields: dict[str, Any]) -> bool:
    return (fields.get("C"), fields.get("H"), fields.get("K")) in LAYER_PLANES


def _conv1d(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    form = rng.choice(
        ["signal", "signals", "channels", "dense", "bank"], p=[0.4, 0.1, 0.2, 0.2, 0.1]
    )
    length = int(2 ** rng.uniform(9, 19 if kind == "cuda" else 16))
    taps = int(2 ** rng.uniform(1.6, 11))
    fields: dict[str, Any] = {"mode": str(rng.choice(["full", "same", "valid"]))}
    fields |= _arithmetic(rng, kind)
    if form == "signal":
        return fields | {"M": length, "N": taps}
    fields |= {"kind": "correlate", "B": int(rng.choice([1, 2, 8, 16, 32, 64]))}
    if form == "signals":
        return fields | {"M": length, "N": taps}
    channels = int(rng.choice([16, 48, 64, 128, 192, 256, 320, 512, 1024]))
    fields |= {"M": int(2 ** rng.uniform(6, 13)), "N": int(rng.choice([2, 3, 4, 5, 7, 9, 15, 31]))}
    fields |= {"stride": int(rng.choice([1, 1, 2])), "mode": str(rng.choice(["same", "causal"]))}
    if form == "channels":
        return fields | {"C": channels, "layout": str(rng.choice(["NCW", "NCW", "NWC"]))}
    filters = int(rng.choice([16, 64, 96, 128, 256, 512]))
    if form == "dense":
        return fields | {"C": channels, "F": filters, "groups": 1}
    taps = int(rng.choice([10, 64, 128, 400]))
    return fields | {
        "M": length, "N": taps, "C": 1, "F": filters, "stride": max(1, taps // 2), "mode": "valid"
    }  # fmt: skip


def _long_conv1d(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    length, taps = (int(2 ** rng.uniform(*bounds)) for bounds in ((11, 20), (9, 16)))
    fields = {"M": length, "N": taps, "mode": str(rng.choice(["full", "same", "causal"]))}
    if rng.random() < 0.3:
        fields |= {"kind": "correlate", "B": int(rng.choice([2, 8])), "C": int(rng.choice([1, 4]))}
    return fields | _arithmetic(rng, kind)


def _channels_of_programs(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    return {
        "C": int(rng.choice([256, 384, 512, 768, 1024, 1536, 3072, 4096])),
        "M": int(2 ** rng.uniform(7, 14)),
        "N": int(rng.choice([3, 4, 4, 5, 7])),
        "B": int(rng.choice([1, 1, 2, 8, 16])),
        "mode": "causal",
        "kind": "correlate",
        "layout": str(rng.choice(["NCW", "NCW", "NWC"])),
        "bias": bool(rng.random() < 0.7),
        "activation": str(rng.choice(["none", "silu", "silu", "gelu"])),
        **_arithmetic(rng, kind),
    }


def _depthwise_of_stride_2(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    return _depthwise_conv2d(rng, kind) | {"stride": 2}


def _depthwise_conv2d(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    size = int(rng.choice([7, 14, 28, 56, 112, int(rng.integers(6, 130))]))
    fields: dict[str, Any] = {
        "B": int(rng.choice([1, 2, 8, 16, 32] if kind == "cuda" else [1, 1, 2])),
        "C": int(rng.choice([16, 24, 32, 64, 80, 120, 160, 256, 480, 640, 768, 1280])),
        "H": size,
        "W": size,
        "K": int(rng.choice([3, 3, 3, 5, 5, 7, 7, 9, 13, 21, 31])),
        "stride": int(rng.choice([1, 1, 1, 2])),
        "layout": str(rng.choice(["NCHW", "NCHW", "NHWC"])),
    }
    if rng.random() < 0.25:
        fields |= {"bias": True, "activation": "relu6"}
    return fields | _arithmetic(rng, kind)


def _arithmetic(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    dtypes = ["float32", "float32", "float16", "bfloat16"] if kind == "cuda" else ["float32"]
    dtype = str(rng.choice(dtypes))
    looser = rng.random() < 0.2
    return {"dtype": dtype} | ({"max_error": 1e-3} if looser and dtype == "float32" else {})


DRAWS: dict[str, tuple[int, tuple[tuple[str, Draw], ...]]] = {
    "all": (1, (("conv1d", _conv1d), ("depthwise_conv2d", _depthwise_conv2d))),
    "rare": (3, (("conv1d", _long_conv1d), ("depthwise_conv2d", _depthwise_of_stride_2))),
    "channels": (4, (("conv1d", _channels_of_programs),)),
}
"""The draws of shapes to learn from: a seed, and each operator's draw. "rare" has kernels of 512 to
65,535 taps, and depthwise of stride 2 only. "channels" has causal convolutions of each channel,
most with a bias or an activation."""
