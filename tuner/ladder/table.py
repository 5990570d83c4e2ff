"""Ladder: a table of the measured rungs, and of the times that they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from templates.rung import Document, Rung
from templates.workload import Workload
from tuner.build.compile import Built
from tuner.compare.comparison import Comparison, Entry
from tuner.compare.stage import EMPTY
from tuner.device.device import Device
from tuner.measure.roofline import roofline
from tuner.terminal.options import as_options

BEST = "best"
FLOOR = "floor"


@dataclass(frozen=True)
class Row:
    """One line of the table, with times in µs.

    ``adds`` is what a rung adds to the one before. ``over_naive`` is the speedup over the first
    timed rung, ``over_before`` the speedup over the last timed rung of the same document.
    ``t4_us`` is the document's own figure, for a T4 and its own shape. ``note`` says why there is
    no time, which rung is the same program on this device, or what a search chose.
    """

    name: str
    what: Literal["rung", "best", "peer", "empty", "floor"]
    adds: str
    document: str | None = None
    time_us: float | None = None
    timing: dict[str, Any] | None = None
    max_error: float | None = None
    over_naive: float | None = None
    over_before: float | None = None
    t4_us: float | None = None
    note: str | None = None


@dataclass(frozen=True)
class Ladder:
    """The measured rungs in the documents' order, then everything that they are compared with."""

    workload: Workload
    device: Device
    rows: tuple[Row, ...]
    documents: tuple[Document, ...]
    clocks: dict[str, Any]
    noise: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        device = self.device
        return {
            "operator": self.workload.operator,
            "workload": self.workload.model_dump(),
            "device": {"kind": device.kind, "name": device.name, "arch": device.arch},
            "rows": self.rows_json(),
            "documents": self.documents_json(),
            "clocks": self.clocks,
            "noise": self.noise,
        }

    def rows_json(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self.rows]

    def documents_json(self) -> list[dict[str, Any]]:
        """Return the documents, with the workloads that their times on a T4 are for."""
        return [
            {"number": d.number, "title": d.title, "workload": d.workload.model_dump()}
            for d in self.documents
        ]


def table(
    workload: Workload,
    device: Device,
    rungs: Sequence[Rung],
    found: Comparison,
    notes: Mapping[str, str],
    tuned: bool,
) -> Ladder:
    """Return a round as a table.

    ``notes`` has the notes by rung. ``tuned`` says whether there was a best to time.
    """
    rows = [
        *_rung_rows(rungs, found, notes),
        *_other_rows(workload, device, found, rungs, tuned),
    ]
    documents = {rung.document.number: rung.document for rung in rungs}
    noise = found.noise(BEST if BEST in found.entries else EMPTY)
    return Ladder(workload, device, tuple(rows), tuple(documents.values()), found.clocks, noise)


def same_programs(rungs: Sequence[Rung], built: Mapping[str, Built]) -> dict[str, str]:
    """Return a note for each rung whose library is the same as an earlier rung's."""
    first: dict[bytes, str] = {}
    notes = {}
    for rung in rungs:
        found = built.get(rung.name)
        if found is None or found.status != "ok":
            continue
        program = found.order.library.read_bytes()
        if program in first:
            notes[rung.name] = f"the same program here as {first[program]}"
        first.setdefault(program, rung.name)
    return notes


def _rung_rows(rungs: Sequence[Rung], found: Comparison, notes: Mapping[str, str]) -> list[Row]:
    """Return a row for each rung."""
    rows: list[Row] = []
    naive: float | None = None
    before: tuple[str, float] | None = None  # document and time of the last timed rung
    for rung in rungs:
        entry, number = found.entries.get(rung.name), rung.document.number
        time_us = _median(entry)
        naive = naive or time_us
        earlier = before[1] if before and before[0] == number else None
        rows.append(
            Row(
                name=rung.name,
                what="rung",
                adds=rung.adds,
                document=number,
                time_us=time_us,
                timing=entry.timing if entry else None,
                max_error=entry.max_error if entry else None,
                over_naive=_ratio(naive, time_us),
                over_before=_ratio(earlier, time_us),
                t4_us=rung.t4_us,
                note=notes.get(rung.name),
            )
        )
        if time_us:
            before = number, time_us
    return rows


def _other_rows(
    workload: Workload, device: Device, found: Comparison, rungs: Sequence[Rung], tuned: bool
) -> list[Row]:
    """Return the rows below the rungs: the best, the peers, the empty program and the floor."""
    names = {rung.name for rung in rungs}
    naive = next(
        (_median(found.entries.get(r.name)) for r in rungs if r.name in found.entries), None
    )
    t4 = {name: us for rung in rungs for name, us in rung.document.peers_t4_us.items()}

    def row(name: str, what: Literal["best", "peer", "empty"], adds: str, figure: str) -> Row:
        entry = found.entries.get(name)
        time_us = _median(entry)
        return Row(
            name=name,
            what=what,
            adds=adds,
            time_us=time_us,
            timing=entry.timing if entry else None,
            max_error=entry.finite_error if entry else None,
            over_naive=None if what == "empty" else _ratio(naive, time_us),
            t4_us=t4.get(figure),
            note=found.dropped.get(name) or (entry.fault(workload.max_error) if entry else None),
        )

    best = row(BEST, "best", "what was tuned for this shape", "")
    if not tuned:
        best = Row(BEST, "best", best.adds, note=_not_tuned(workload))
    peers = sorted(
        (
            row(name, "peer", "", name.replace(".", " ").split()[0])
            for name in {**found.entries, **found.dropped}
            if name not in names and name not in (BEST, EMPTY)
        ),
        key=lambda peer: peer.time_us or float("inf"),
    )
    floor = roofline(workload, device.limits, 1.0, found.empty_us)
    return [
        best,
        *peers,
        row(EMPTY, "empty", "a program that does nothing: the cost of a launch", ""),
        Row(
            FLOOR,
            "floor",
            "roofline of the direct form"
            + (f", bound by {floor['bound']}" if floor["bound"] else ""),
            time_us=floor["floor_us"],
            note=None if floor["bound"] else "the device's peaks are unknown",
        ),
    ]


def _not_tuned(workload: Workload) -> str:
    return f"not tuned yet: tuner tune {workload.operator} {as_options(workload)}"


def _median(entry: Entry | None) -> float | None:
    return entry.time_us if entry else None


def _ratio(slow: float | None, fast: float | None) -> float | None:
    return slow / fast if slow and fast else None
