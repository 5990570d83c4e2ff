"""Records of a log, which may come from anywhere and are checked field by field.

An import takes a workload and a configuration of a template or of the naive schedule. It never
takes a program, a trace or a time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from templates import operator, operators
from templates.errors import InvalidRecords, RecordFault, first_refused
from templates.naive import NAME as NAIVE
from templates.naive import naive_on
from templates.records.members import DuplicateMember, unique_members
from templates.records.trace import Trace
from templates.spaces.knob import quoted
from templates.workload import Workload

MAX_RECORDS = 10_000
MAX_FAULTS = 20
"""The rest of a log is not read after this many faults."""
MAX_WORKLOADS = 256
"""The most workloads of a log. Each becomes a job, and all jobs of a log are stored at once."""
MAX_LINE_BYTES = 1 << 20
"""The most bytes of a line: ten times the size of MetaSchedule's record of a best.

Together with MAX_NAMES it bounds the cost of a line before any of it is checked.
"""
MAX_NAMES = 256
"""The most names of one object."""
MAX_KNOBS = 64
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_WORDS = re.compile(r"[A-Za-z0-9_.+ -]{1,64}")
_LARGEST = 2**53


class RecordLine(BaseModel):
    """A line of ``format=convtune``. The optional fields are results elsewhere, and not trusted."""

    model_config = ConfigDict(strict=True, extra="forbid")

    convtune: Literal[1] = Field(description="the version of this format")
    operator: str
    workload: dict[str, Any]
    target: Literal["cpu", "cuda"]
    template: str
    version: int
    config: dict[str, Any]
    device: dict[str, Any] | None = None
    time_us: float | None = None
    status: Any = None
    max_error: Any = None
    error: Any = None
    timing: Any = None
    seconds: Any = None
    tvm: Any = None
    job: Any = None
    measured_at: Any = None


@dataclass(frozen=True)
class Imported:
    """A configuration for a workload on a kind of device.

    A worker finds out whether it is in the template's space on its device, and whether it is right.
    """

    workload: Workload
    target: Literal["cpu", "cuda"]
    template_version: int
    config: dict[str, Any]
    source: dict[str, Any]  # the line in its log, and the device and the time given there


class _Refused(Exception):
    """A record can't be imported.

    ``field`` may be any name in the log. The fault names its beginning, in ASCII.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = _shown(field)[1:].removesuffix('"')


def parse(lines: Iterable[bytes]) -> list[Imported]:
    """Return all records of a log in JSON lines.

    The records are this project's, or MetaSchedule's as this project exports them. Blank lines are
    ignored. Raise InvalidRecords, which names each wrong line and field.
    """
    found: list[Imported] = []
    faults: list[RecordFault] = []
    jobs: set[tuple[str, str]] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            if len(found) == MAX_RECORDS:
                raise _Refused("log", f"a log may have at most {MAX_RECORDS} records; split it")
            found.append(_imported(number, _object(line)))
            jobs.add((found[-1].workload.key, found[-1].target))
            if len(jobs) > MAX_WORKLOADS:
                raise _Refused("log", f"a log may have at most {MAX_WORKLOADS} shapes; split it")
        except _Refused as refused:
            faults.append(RecordFault(number, refused.field, str(refused)))
            if len(faults) == MAX_FAULTS or refused.field == "log":
                break
    if not found and not faults:
        faults = [RecordFault(1, "log", "there is no record in it")]
    if faults:
        raise InvalidRecords(faults)
    return found


def _object(line: bytes) -> dict[str, Any]:
    """Return the record of a line, or raise _Refused.

    If the line is a record of MetaSchedule, its part under ``convtune`` is the record.
    """
    if len(line) > MAX_LINE_BYTES:
        raise _Refused("record", f"has more than {MAX_LINE_BYTES} bytes; no record needs so many")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(items) > MAX_NAMES:
            raise _Refused("record", f"has an object with more than {MAX_NAMES} names")
        return unique_members(items)

    def constant(text: str) -> Any:
        raise _Refused("record", f"{text} is no JSON")

    try:
        value = json.loads(line.decode(), object_pairs_hook=pairs, parse_constant=constant)
    except DuplicateMember as error:
        raise _Refused("record", str(error)) from error
    except RecursionError as error:
        raise _Refused("record", "is nested too deeply") from error
    except ValueError as error:
        raise _Refused("record", f"is no JSON ({str(error)[:80]})") from error
    if not isinstance(value, dict):
        raise _Refused("record", "must be a JSON object")
    if "tuning_record" not in value:
        return value
    ours = value.get("convtune")
    if not isinstance(ours, dict):
        raise _Refused(
            "convtune",
            "is missing: a record of MetaSchedule can be imported only if this field names its "
            "template, as format=metaschedule writes it",
        )
    return ours


def _imported(number: int, value: dict[str, Any]) -> Imported:
    try:
        line = RecordLine.model_validate(value)
    except ValidationError as error:
        field, why = first_refused(error)
        raise _Refused(field or "record", why) from error
    workload = _workload(line)
    _check_template(line)
    _check_config(line)
    return Imported(
        workload=workload,
        target=line.target,
        template_version=line.version,
        config=line.config,
        source={"line": number, "time_us": _time(line.time_us), "device": _device(line.device)},
    )


def _workload(line: RecordLine) -> Workload:
    known = [each.name for each in operators()]
    if line.operator not in known:
        raise _Refused("operator", f"must be one of {', '.join(known)}")
    try:
        return operator(line.operator).workload.model_validate(line.workload)
    except ValidationError as error:
        field, why = first_refused(error)
        raise _Refused(f"workload.{field}" if field else "workload", why) from error


def _check_template(line: RecordLine) -> None:
    """Raise _Refused if the record's template or its version is not one of this release."""
    if line.template == Trace.name:
        raise _Refused(
            "template",
            "must not be trace: what MetaSchedule's search found can't be imported from a log; "
            "leave the record out and search here",
        )
    templates = operator(line.operator).templates
    versions = {each.name: each.version for each in templates if each.kind == line.target}
    versions[NAIVE] = naive_on(line.target).version  # a finalist of every round, so it may be best
    if line.template not in versions:
        names = ", ".join(versions)
        raise _Refused("template", f"must be one of {names} for {line.operator} on {line.target}")
    if line.version != versions[line.template]:
        raise _Refused(
            "version",
            f"must be {versions[line.template]}, the version of {line.template} here, but is "
            f"{_shown(line.version)}, which is another program; export with format kerneltuner "
            "instead, and the shapes are tuned anew",
        )


def _check_config(line: RecordLine) -> None:
    """Raise _Refused if a knob's name or value has a form that no template uses."""
    if line.config.get("template") != line.template:
        raise _Refused("config.template", f"must be {line.template}, the record's template")
    if len(line.config) > MAX_KNOBS:
        raise _Refused("config", f"has more than {MAX_KNOBS} knobs")
    for name, value in line.config.items():
        if not _NAME.fullmatch(name):
            raise _Refused("config", f"{_shown(name)} can't be the name of a knob")
        parts = value if isinstance(value, list) else [value]
        whole = isinstance(value, list)
        if len(parts) > MAX_KNOBS or not all(_scalar(part, whole) for part in parts):
            raise _Refused(f"config.{name}", f"{_shown(value)} can't be a knob's value")


def _scalar(value: Any, whole: bool) -> bool:
    if type(value) is int:
        return abs(value) <= _LARGEST
    if whole:  # a split: integers only
        return False
    if isinstance(value, str):
        return bool(_WORDS.fullmatch(value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool)


def _time(time_us: float | None) -> float | None:
    """Return the time in µs if it is positive and finite, else None."""
    return time_us if time_us is not None and 0 < time_us < math.inf else None


def _device(device: dict[str, Any] | None) -> str | None:
    """Return the device's name in ASCII, cut off after 200 characters; None if there is none."""
    name = (device or {}).get("name")
    return name[:200].encode("ascii", "replace").decode() if isinstance(name, str) else None


def _shown(value: Any) -> str:
    text = quoted(value) if isinstance(value, list | dict) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
