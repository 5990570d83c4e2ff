"""Hostile logs: each is either imported whole or refused with the line and field of its faults."""

import json
import re
import tracemalloc
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings

from templates import logs
from templates.errors import InvalidRecords
from templates.logs import Log
from templates.records.record import MAX_FAULTS, MAX_NAMES, MAX_RECORDS, MAX_WORKLOADS, parse
from tests import hostile
from tests.foreign_logs import LINES, METASCHEDULE, OTHERS

MESSAGE = 2000


def read(log: bytes) -> Log | InvalidRecords:
    """Check the log's contents, or its refusal, and return it.

    Contents must be storable. A refusal must have at most ``MAX_FAULTS`` faults, each with a line,
    a field and a short message.
    """
    try:
        found = logs.read(log)
    except InvalidRecords as refused:
        assert 0 < len(refused.faults) <= MAX_FAULTS
        for fault in refused.faults:
            assert 1 <= fault.line <= log.count(b"\n") + 1 or b'"results"' in log
            assert fault.field
            assert len(fault.message) < MESSAGE
            assert len(fault.field) < 100
            str(fault).encode()
        assert "nothing was imported" in str(refused)
        return refused
    assert 0 < len(found.configs) + len(found.shapes) <= found.records <= MAX_RECORDS
    for each in found.configs:
        storable([each.config, each.source, each.workload.model_dump()])
    for shape in found.shapes:
        storable(shape.workload.model_dump())
    for refusal in found.refused:
        assert len(refusal.reason) < MESSAGE
        storable(refusal.reason)
    return found


def storable(value: object) -> None:
    """Assert that a value's JSON has no NUL and no lone surrogate, which PostgreSQL can't store."""
    # in JSON a backslash of the text is two, so a single one begins an escape
    text = json.dumps(value, allow_nan=False).replace("\\\\", "")
    assert not re.search(r"\\u0000|\\ud[89a-f]", text)


def test_unchanged_records_are_imported() -> None:
    for lines in (LINES, METASCHEDULE):
        found = read("\n".join(map(json.dumps, lines)).encode())
        assert isinstance(found, Log)
        assert len(found.configs) == len(lines)


@settings(max_examples=400)
@given(hostile.logs([*LINES, *METASCHEDULE], OTHERS))
def test_damaged_log_is_imported_whole_or_refused(log: bytes) -> None:
    read(log)


@pytest.mark.parametrize("field", ["config", "workload", "device", "timing", "error", "convtune"])
def test_record_nested_to_any_depth_is_imported_or_refused(field: str) -> None:
    """Depths go beyond the interpreter's limit. Just below the limit, JSON may be readable that
    can't be written again."""
    good = json.dumps(LINES[0])
    for depth in [*range(1, 20), *range(700, 1000), 10_000, 100_000]:
        deep = "[" * depth + "]" * depth
        for value in (deep, f'{{"template": "direct", "x": {deep}}}'):
            read(f'{good[:-1]}, "{field}x": 1, "{field}": {value}}}'.encode())
            read(
                json.dumps(LINES[0] | {field: 0})
                .replace(f'"{field}": 0', f'"{field}": {value}')
                .encode()
            )


@pytest.mark.parametrize("name", ["x" * 10**6, "\ud800" * 1000, "\0", '"', "\\", "\n", ""])
def test_record_with_an_unknown_field_of_any_name_is_refused(name: str) -> None:
    line = LINES[0]
    for changed in (
        line | {name: 1},
        line | {"workload": line["workload"] | {name: 1}},
        line | {"config": line["config"] | {name: 1}},
    ):
        assert isinstance(read(json.dumps(changed).encode()), InvalidRecords)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"\ud800": 1}, "record"),
        ({"": 1}, "''"),
        ({"workload": {"M": 9, "N": 3, "\ud800": 1}}, "workload"),
        ({"workload": {"M": 9, "N": 3, "": 1}}, "workload.''"),
    ],
    ids=["no text", "no name", "no text within", "no name within"],
)
def test_refusal_names_a_place_even_if_the_field_has_no_usable_name(
    changed: dict[str, Any], field: str
) -> None:
    """A name with a lone surrogate is a fault of the whole record; an empty name is quoted."""
    refused = read(json.dumps(LINES[0] | changed).encode())
    assert isinstance(refused, InvalidRecords)
    assert refused.faults[0].field == field


def test_huge_line_is_refused_but_a_merely_long_one_is_imported() -> None:
    assert isinstance(read(b"x" * 2**23), InvalidRecords)
    assert isinstance(read(json.dumps(LINES[0] | {"error": "x" * 2**19}).encode()), Log)
    assert isinstance(
        read(json.dumps(LINES[0] | {"config": hostile.nested(900)}).encode()), InvalidRecords
    )


@pytest.mark.parametrize(
    ("names", "said"), [(690_000, "bytes; no record needs so many"), (MAX_NAMES + 1, "256 names")]
)
def test_record_with_too_many_names_is_refused_in_little_memory(names: int, said: str) -> None:
    """The record is refused before it takes more than twice its size in memory."""
    log = json.dumps(LINES[0] | {f"n{n}": 0 for n in range(names)}).encode()
    tracemalloc.start()
    refused = read(log)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(refused, InvalidRecords)
    assert said in str(refused)
    assert peak < 2 * len(log) + 2**20


def test_blank_lines_take_no_memory() -> None:
    log = b"\n" * 2**22 + json.dumps(LINES[0]).encode()
    tracemalloc.start()
    found = parse(BytesIO(log))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 1
    assert peak < 2**20


def test_own_log_with_too_many_shapes_is_refused() -> None:
    shapes = [{**LINES[0], "workload": {"M": 100 + n, "N": 7}} for n in range(MAX_WORKLOADS + 1)]
    assert isinstance(read("\n".join(map(json.dumps, shapes[:-1])).encode()), Log)
    refused = read("\n".join(map(json.dumps, [*shapes, *shapes])).encode())
    assert isinstance(refused, InvalidRecords)
    assert "at most 256 shapes; split it" in str(refused)
