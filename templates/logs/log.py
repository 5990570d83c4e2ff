"""Content of an imported log: configurations to measure, shapes to tune, and refused records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from templates.errors import InvalidRecords, RecordFault
from templates.records.record import MAX_FAULTS, MAX_RECORDS, MAX_WORKLOADS, Imported
from templates.workload import Workload

Target = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class Shape:
    """A workload that another tool's log names.

    It is tuned from the start, because the log's configurations are for another program.
    """

    workload: Workload
    target: Target


@dataclass(frozen=True)
class Refused:
    """Records that can't be imported for the same reason. ``line`` is the line of the first."""

    reason: str
    records: int
    line: int


@dataclass(frozen=True)
class Log:
    """A log that was read: its format's name and how many records it has.

    ``shapes`` has each shape once, ``refused`` each reason once, the most frequent first.
    """

    format: str
    records: int
    configs: list[Imported] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


class NotExpressible(Exception):
    """A record names no workload of this project. The message is the reason."""


def log_of_shapes(
    name: str, takes: str, records: Iterable[tuple[int, Shape | NotExpressible]]
) -> Log:
    """Return the importable part of another tool's log, given as records with their lines.

    Raise InvalidRecords if none can be imported, or if there are too many.
    """
    shapes: dict[tuple[str, str], Shape] = {}
    refused: dict[str, Refused] = {}
    count = 0
    for line, found in records:
        count += 1
        if count > MAX_RECORDS:
            raise _too_long(line, f"at most {MAX_RECORDS} records")
        if isinstance(found, Shape):
            shapes.setdefault((found.workload.key, found.target), found)
            if len(shapes) > MAX_WORKLOADS:
                raise _too_long(line, f"at most {MAX_WORKLOADS} shapes")
        else:
            reason = str(found)
            if reason not in refused and len(refused) >= MAX_FAULTS:
                reason = "for other reasons"
            known = refused.get(reason, Refused(reason, 0, line))
            refused[reason] = replace(known, records=known.records + 1)
    said = sorted(refused.values(), key=lambda each: -each.records)
    if not shapes:
        message = (
            f"is {name}, from which only {takes} can be imported, as orders to tune; it has none"
        )
        first = RecordFault(1, "log", message)
        raise InvalidRecords([first, *(_fault(each) for each in said[: MAX_FAULTS - 1])])
    return Log(name, count, shapes=list(shapes.values()), refused=said)


def _fault(refused: Refused) -> RecordFault:
    more = f" ({refused.records} records)" if refused.records > 1 else ""
    return RecordFault(refused.line, "shape", refused.reason + more)


def _too_long(line: int, limit: str) -> InvalidRecords:
    return InvalidRecords([RecordFault(line, "log", f"may have {limit}; split it")])
