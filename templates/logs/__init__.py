"""Import of logs of this project and of other tools. A format is known by how a log begins."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO

from templates.logs import autotvm, t4, unusable
from templates.logs.log import Log, Refused, Shape
from templates.records.record import parse

__all__ = ["Log", "Refused", "Shape", "read"]

HEAD = 4096
"""The most bytes of the first record that are looked at to identify the tool."""


def read(content: bytes) -> Log:
    """Read a log in any known format.

    A log of this project is imported as configurations to measure, all or none. Another tool's log
    gives orders to tune the shapes that can be expressed, and the reasons why other shapes can't.
    Raise InvalidRecords, with the format's name, if nothing of the log can be imported.
    """
    head = _first_record(content)
    for pattern, reader in _READERS:
        if pattern.match(head):
            return reader(content)
    return _read_own(content)


def _first_record(content: bytes) -> bytes:
    """Return the first record's beginning, after blank lines and comments."""
    before = _BLANKS_AND_COMMENTS.match(content)
    start = before.end() if before else 0
    return content[start : start + HEAD]


def _read_own(content: bytes) -> Log:
    records = parse(BytesIO(content))
    return Log("convtune", len(records), configs=records)


# Possessive, because a log of many such lines would otherwise take memory for each of them.
_BLANKS_AND_COMMENTS = re.compile(rb"(?:\s++|#[^\n]*+\n)++")
_READERS: tuple[tuple[re.Pattern[bytes], Callable[[bytes], Log]], ...] = (
    (re.compile(rb'\{.*"(?:convtune|tuning_record)"\s*:', re.DOTALL), _read_own),
    (re.compile(rb'\{.*"(?:input|i)"\s*:\s*\[\s*"', re.DOTALL), autotvm.read),
    (re.compile(rb'\{.*"i"\s*:\s*\[\s*\[', re.DOTALL), unusable.auto_scheduler),
    (re.compile(rb'\{.*"tune_params(?:_keys)?"\s*:', re.DOTALL), unusable.kernel_tuner_cache),
    (re.compile(rb'\{.*"results"\s*:\s*\[', re.DOTALL), t4.read),
    (re.compile(rb'\[\s*(?:\d+\s*,\s*\[|"-?\d+"\s*,\s*")'), unusable.metaschedule),
)
