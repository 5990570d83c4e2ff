"""Comparison of a best with PyTorch's own layer, by the times stored when the shape was tuned."""

from __future__ import annotations

from typing import Any

from tuner.client.answers import Best

_CHANNELS_FIRST, _CHANNELS_LAST = ("NCHW", "NCW"), ("NHWC", "NWC")


def reason_to_use_pytorch(best: Best) -> str | None:
    """Return why PyTorch should compute this workload, with its time; None if it should not.

    PyTorch should compute it if a PyTorch baseline was the fastest of all, unless the best was
    faster than every PyTorch baseline that a layer could use.
    """
    fastest, usable = best.fastest, fastest_eager_pytorch(best)
    slower = usable is None or usable["speedup"] < 1
    if fastest is None or not fastest.name.startswith("pytorch") or not slower:
        return None
    said = f"{fastest.name} was the fastest when this shape was tuned"
    return f"{said}: {fastest.time_us:.4g} µs"


def fastest_eager_pytorch(best: Best) -> dict[str, Any] | None:
    """Return, of the PyTorch baselines that a layer could use, the one over which the best's
    speed-up is least; None if a layer could use none of them.

    A layer calls PyTorch eagerly on the tensor that it gets. Baselines that are compiled, use an
    FFT or run in another memory layout are left out: the conversion would cost more than it gains.
    """
    others = _CHANNELS_FIRST if best.workload.get("layout") in _CHANNELS_LAST else _CHANNELS_LAST
    rows = [
        row
        for row in best.model_dump()["baselines"] or ()
        if row["name"].startswith("pytorch") and row.get("speedup")
        if not any(each in row["name"].split() for each in (*others, "fft", "compiled"))
    ]
    return min(rows, key=lambda row: float(row["speedup"]), default=None)
