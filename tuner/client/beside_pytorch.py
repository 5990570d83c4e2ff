"""A best beside PyTorch, as it was timed when the shape was tuned."""

from __future__ import annotations

from tuner.client.answers import Best

_CHANNELS_FIRST, _CHANNELS_LAST = ("NCHW", "NCW"), ("NHWC", "NWC")


def left_to_pytorch(best: Best) -> str | None:
    """Why PyTorch, which was faster, should compute that workload."""
    fastest = best.fastest
    slower = min(pytorchs(best).values(), default=0) < 1
    if fastest is None or not fastest.name.startswith("pytorch") or not slower:
        return None
    said = f"{fastest.name} was the fastest when this shape was tuned"
    return f"{said}: {fastest.time_us:.4g} µs"


def pytorchs(best: Best) -> dict[str, float]:
    """How many times as fast the best is as PyTorch called as a layer calls it, by the names of
    those rows: on what comes, as it is written, without transforms, and not in another layout. To
    convert would cost more than it gains."""
    others = _CHANNELS_FIRST if best.workload.get("layout") in _CHANNELS_LAST else _CHANNELS_LAST
    rows = best.model_dump()["baselines"] or ()
    return {
        row["name"]: row["speedup"]
        for row in rows
        if row["name"].startswith("pytorch") and row.get("speedup")
        if not any(each in row["name"].split() for each in (*others, "fft", "compiled"))
    }
