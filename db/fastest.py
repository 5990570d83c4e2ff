"""Who was the fastest in a best's round: ours, or a peer that one would rather call."""

from collections.abc import Mapping, Sequence
from typing import Any

OURS = "convtune"
NO_PEERS = ("default", "naive")  # our own programs, shown for comparison


def fastest(
    timing: Mapping[str, Any], time_us: float, baselines: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """``{"name", "time_us"}`` of the fastest: the peer that beats ours by the most, else ours with
    ``time_us``. Like is compared with like, see ``own_time``."""
    peers = [row for row in baselines if _is_peer(row)]
    gains = [own_time(timing, time_us, row) / row["time_us"] for row in peers]
    most = max(gains, default=1.0)
    if most <= 1.0:
        return {"name": OURS, "time_us": time_us}
    first = peers[gains.index(most)]
    return {"name": first["name"], "time_us": first["time_us"]}


def own_time(timing: Mapping[str, Any], time_us: float, row: Mapping[str, Any]) -> float:
    """Our own time that compares with a baseline's, µs: that of the call from Python where the
    baseline is one, else the kernel's."""
    if row.get("level") == "call" and timing.get("call"):
        return float(timing["call"]["median_us"])
    return time_us


def _is_peer(row: Mapping[str, Any]) -> bool:
    """What failed or was wrong is no alternative."""
    return bool(row.get("time_us")) and not row.get("error") and row["name"] not in NO_PEERS
