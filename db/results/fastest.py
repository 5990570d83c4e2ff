"""The fastest of a best's round: convtune's kernel ("ours"), or a peer, such as PyTorch.

``timing``, ``time_us`` and ``baselines`` are those of a best (db/contract/best.py)."""

from collections.abc import Mapping, Sequence
from typing import Any

OURS = "convtune"
NO_PEERS = ("default", "naive")  # our own programs, shown for comparison

CHANNELS_FIRST, CHANNELS_LAST = ("NCW", "NCHW"), ("NWC", "NHWC")
"""The names of layouts in workloads and in the names of peers."""

Row = Mapping[str, Any]


def fastest(timing: Row, time_us: float, baselines: Sequence[Row]) -> dict[str, Any]:
    """Return ``{"name", "time_us"}`` of the fastest: a peer if one beat ours, else ours."""
    peer = faster_peer(timing, time_us, baselines)
    if peer is None:
        return {"name": OURS, "time_us": time_us}
    return {"name": peer["name"], "time_us": peer["time_us"]}


def faster_peer(timing: Row, time_us: float, baselines: Sequence[Row]) -> Row | None:
    """Return the baseline row of the peer that beat ours by the largest factor; None if none did.
    Calls are compared with our call, kernels with our kernel: see ``own_time``."""
    peers = [row for row in baselines if _is_peer(row)]
    gains = [own_time(timing, time_us, row) / row["time_us"] for row in peers]
    most = max(gains, default=1.0)
    return peers[gains.index(most)] if most > 1.0 else None


def fastest_peer(timing: Row, time_us: float, baselines: Sequence[Row]) -> Row:
    """Return ``{"name", "time_us", "speedup"}`` of the peer against which ours does worst; empty if
    no peer gave a right answer and a time. ``speedup`` is the peer's time divided by ours."""
    return _fastest_of(timing, time_us, [row for row in baselines if _is_peer(row)])


def fastest_pytorch(workload: Row, timing: Row, time_us: float, baselines: Sequence[Row]) -> Row:
    """Return what `fastest_peer` does, but only among PyTorch's peers in the workload's own layout,
    which need not convert any tensor."""
    others = CHANNELS_FIRST if workload.get("layout") in CHANNELS_LAST else CHANNELS_LAST
    rows = [
        row
        for row in baselines
        for words in [row["name"].split()]
        if _is_peer(row) and words[0] == "pytorch" and not set(others) & set(words)
    ]
    return _fastest_of(timing, time_us, rows)


def _fastest_of(timing: Row, time_us: float, rows: Sequence[Row]) -> Row:
    speedups = [row["time_us"] / own_time(timing, time_us, row) for row in rows]
    if not speedups:
        return {}
    least = min(speedups)
    row = rows[speedups.index(least)]
    return {"name": row["name"], "time_us": row["time_us"], "speedup": least}


def own_time(timing: Row, time_us: float, row: Row) -> float:
    """Return our time, in µs, to compare with a baseline row. This is the time of our call from
    Python if the row is of level call and our call was timed; else that of our kernel."""
    if row.get("level") == "call" and timing.get("call"):
        return float(timing["call"]["median_us"])
    return time_us


def _is_peer(row: Row) -> bool:
    """Return whether the row is a peer that neither failed nor was wrong, and so can replace
    ours."""
    return bool(row.get("time_us")) and not row.get("error") and row["name"] not in NO_PEERS
