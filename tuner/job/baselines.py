"""The baselines of a best: rows of its last round, and of peers that an earlier job timed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from db.results.fastest import own_time
from db.results.peer_times import PeerTimes
from tuner.compare.comparison import Comparison, Entry
from tuner.compare.stage import EMPTY

Row = dict[str, Any]

LASTING_ERRORS = ("TooSlow", "NotServed", "ImportError", "ModuleNotFoundError")
"""How the lasting errors begin: because of them a later job can't time the peer here, either."""


def baseline_rows(
    final: Comparison,
    winner: Entry,
    peers: Comparison,
    timing: Mapping[str, Any],
    allowed: float,
    kept: PeerTimes | None = None,
) -> list[Row]:
    """Return the rows of the baselines, fastest first, then those that could not be timed.

    ``final`` is the round of the finalists, ``peers`` the round in which the winner was delivered
    beside its peers. ``timing`` is the winner's, ``allowed`` the workload's ``max_error``. ``kept``
    are times of an earlier job; their rows get ``measured_at``.

    A row's ``error`` says why it is no fair comparison: the baseline failed, or its error exceeds
    ``allowed``. Its ``speedup`` is its time over the winner's time of the same ``level``, in the
    same round, or in this job if the row has ``measured_at``.
    """
    rows = []
    kernel_us = float(timing["warm"]["median_us"])
    for entry in final.entries.values():
        if _is_compared(entry.name):
            rows.append(_row(entry, winner.time_us, allowed))
    for entry in peers.entries.values():
        rows.append(_row(entry, own_time(timing, kernel_us, {"level": entry.level}), allowed))
    failed = [
        _failed(name, reason)
        for name, reason in (final.dropped | peers.dropped).items()
        if _is_compared(name)
    ]
    for row in _dated(kept) if kept else []:
        if row["time_us"] is None:
            failed.append(row | {"speedup": None})
        else:
            rows.append(row | {"speedup": row["time_us"] / own_time(timing, kernel_us, row)})
    return sorted(rows, key=lambda row: float(row["time_us"])) + failed


def reusable_rows(rows: Sequence[Row], ours: Collection[str]) -> list[Row]:
    """Return the rows of peers as they are kept for later jobs.

    ``ours`` are the names of rows that are no peers. The result is empty if a peer failed for a
    reason that may pass, because later jobs would go without that peer.
    """
    peers = [
        {name: value for name, value in row.items() if name != "speedup"}
        for row in rows
        if row["name"] not in ours
    ]
    untimed = [row["error"] for row in peers if row["time_us"] is None]
    return peers if all(error.startswith(LASTING_ERRORS) for error in untimed) else []


def _dated(kept: PeerTimes) -> list[Row]:
    return [row | {"measured_at": kept.measured_at.isoformat()} for row in kept.rows]


def _failed(name: str, reason: str) -> Row:
    return {
        "name": name,
        "time_us": None,
        "speedup": None,
        "max_error": None,
        "error": reason,
        "level": None,
    }


def _row(entry: Entry, own_us: float, allowed: float) -> Row:
    return {
        "name": entry.name,
        "time_us": entry.time_us,
        "speedup": entry.time_us / own_us,
        "max_error": entry.finite_error,
        "error": entry.fault(allowed),
        "level": entry.level,
    }


def _is_compared(name: str) -> bool:
    return name != EMPTY and not name.startswith("finalist")
