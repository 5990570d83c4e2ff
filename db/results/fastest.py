"""What was fastest in a best's round: our kernel, a peer, PyTorch among them."""

from collections.abc import Mapping, Sequence
from typing import Any

OURS = "convtune"
NO_PEERS = ("default", "naive")  # our own programs, shown for comparison

CHANNELS_FIRST, CHANNELS_LAST = ("NCW", "NCHW"), ("NWC", "NHWC")
"""Layouts, as workloads and the names of peers have them."""

Row = Mapping[str, Any]


def fastest(timing: Row, time_us: float, baselines: Sequence[Row]) -> dict[str, Any]:
    """``{"name", "time_us"}`` of the fastest: a peer that beat ours, else ours with ``time_us``."""
    peer = faster_peer(timing, time_us, baselines)
    if peer is None:
        return {"name": OURS, "time_us": time_us}
    return {"name": peer["name"], "time_us": peer["time_us"]}


def faster_peer(timing: Row, time_us: float, baselines: Sequence[Row]) -> Row | None:
    """The row of the peer that beat ours by the most. Like is compared with like: see
    ``own_time``."""
    peers = [row for row in baselines if _is_peer(row)]
    gains = [own_time(timing, time_us, row) / row["time_us"] for row in peers]
    most = max(gains, default=1.0)
    return peers[gains.index(most)] if most > 1.0 else None


def fastest_peer(timing: Row, time_us: float, baselines: Sequence[Row]) -> Row:
    """``{"name", "time_us", "speedup"}`` of the fastest peer; empty if none was timed rightly.
    ``speedup`` is how many times as fast as it ours is."""
    return _fastest_of(timing, time_us, [row for row in baselines if _is_peer(row)])


def fastest_pytorch(workload: Row, timing: Row, time_us: float, baselines: Sequence[Row]) -> Row:
    """The same of PyTorch's peers in the workload's own layout, where nothing has to be
    converted."""
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
    """Our own time, µs, to compare with a baseline's: that of the call from Python if the baseline
    is a call, else the kernel's."""
    if row.get("level") == "call" and timing.get("call"):
        return float(timing["call"]["median_us"])
    return time_us


def _is_peer(row: Row) -> bool:
    """Whether the row is an alternative to ours: a peer that neither failed nor was wrong."""
    return bool(row.get("time_us")) and not row.get("error") and row["name"] not in NO_PEERS
