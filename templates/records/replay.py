"""JSON of MetaSchedule's traces: written from a trace, and applied to a program again.

Functions import TVM when they are called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from templates.errors import InvalidConfig

_WORD = re.compile(r'"?[\w.]*"?', re.ASCII)
_NOTES = ("meta_schedule.", "software_pipeline_")
_PRAGMAS = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")
"""Pragmas of MetaSchedule's rules. Others can bring code, as ``pragma_import_llvm`` does."""


def apply_trace(computation: Any, text: object) -> Any:
    """Return the ``tvm.s_tir.Schedule`` that results if a trace is applied to a TIR function.

    Raise InvalidConfig if ``text`` is not the JSON of a trace of this function.
    """
    import tvm
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    try:
        steps = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"trace: is no JSON ({error}); search again") from error
    if not _is_trace(steps):
        raise InvalidConfig("trace: must be the JSON of a trace, [steps, decisions], as text")
    _must_be_harmless(steps)
    schedule = Schedule(tvm.IRModule({"main": computation}))
    try:
        Trace.apply_json_to_schedule(steps, schedule)
    except Exception as error:  # TVM raises errors of its own and of Python
        reason = " ".join(str(error).split())[:200]
        raise InvalidConfig(
            f"trace: does not apply to this workload ({reason}); search again"
        ) from error
    if trace_text(schedule.trace) != text:
        raise InvalidConfig(
            "trace: applying it gives another trace: it is of another workload, or a decision is "
            "missing or changed; search again"
        )
    return schedule


def _is_trace(value: Any) -> bool:
    """Return whether a value has the structure of a trace; TVM reads others out of bounds."""
    if not _has(value, list, list):
        return False
    steps, decisions = value
    return all(_has(step, str, list, list, list) for step in steps) and all(
        isinstance(each, list) and len(each) == 2 and each[0] in range(len(steps))
        for each in decisions
    )


def _must_be_harmless(trace: Any) -> None:
    """Raise InvalidConfig if a step could bring its own code into the program.

    A trace may come from anyone who can write to the database, and the library that is built from
    it is signed.
    """
    strange = next((text for text in _texts(trace) if not _WORD.fullmatch(text)), None)
    if strange is not None:
        raise InvalidConfig(f"trace: {strange[:60]!r} is no name; search again")
    for kind, _, attributes, _ in trace[0]:
        if kind == "Annotate":
            for key in _texts(attributes):
                if key not in _PRAGMAS and not key.startswith(_NOTES):
                    raise InvalidConfig(
                        f"trace: {key[:60]!r} is no annotation of MetaSchedule's; search again"
                    )


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in nested lists and objects, however deep."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]


def _has(value: Any, *kinds: type) -> bool:
    """Return whether a value is a list of elements of these types, one each."""
    return (
        isinstance(value, list) and len(value) == len(kinds) and all(map(isinstance, value, kinds))
    )


def trace_text(trace: Any) -> str:
    """Return the JSON of a ``tvm.s_tir.schedule.Trace``."""
    return json.dumps(to_python(trace.as_json()), separators=(",", ":"))


def to_python(value: Any) -> Any:
    """Return TVM's containers and numbers as Python's."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "items"):
        return {str(key): to_python(item) for key, item in value.items()}
    if hasattr(value, "__iter__"):
        return [to_python(item) for item in value]
    return value.value
