"""A stored trace of MetaSchedule replays to the same program. A damaged or hostile trace is
refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm.s_tir import Schedule

from templates.conv1d.workload import Conv1dWorkload
from templates.errors import InvalidConfig
from templates.records.replay import trace_text
from templates.records.trace import Trace

WORKLOAD = Conv1dWorkload(M=60, N=5)
TRACE = Trace()


def tiled() -> Schedule:
    """Return a schedule like the search's, with a split whose factors are a decision."""
    schedule = Schedule(tvm.IRModule({"main": TRACE.computation(WORKLOAD, {})}), seed=3)
    outputs, taps = schedule.get_loops(schedule.get_sblock("y"))
    outer, inner = schedule.split(outputs, schedule.sample_perfect_tile(outputs, 2))
    schedule.reorder(outer, taps, inner)
    schedule.unroll(inner)
    return schedule


@pytest.fixture(scope="module")
def text() -> str:
    return trace_text(tiled().trace)


def test_stored_trace_replays_to_the_same_program(text: str) -> None:
    config = json.loads(json.dumps(TRACE.config(text)))
    assert tvm_ffi.structural_equal(TRACE.schedule(WORKLOAD, config).mod, tiled().mod)


def without_decisions(steps: Any) -> Any:
    return [steps[0], []]


def with_a_wrong_decision(steps: Any) -> Any:
    return [steps[0], [[place, [3, 7]] for place, _ in steps[1]]]


def without_a_step(steps: Any) -> Any:
    return [steps[0][1:], steps[1]]


def with_an_unknown_step(steps: Any) -> Any:
    return [[*steps[0], ["Teleport", [], [], []]], steps[1]]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (without_decisions, "a decision is missing or changed"),
        (with_a_wrong_decision, "a decision is missing or changed"),
        (without_a_step, "does not apply to this workload"),
        (with_an_unknown_step, "does not apply to this workload .*Teleport"),
        (lambda _: {}, r"must be the JSON of a trace, \[steps, decisions\]"),
        (lambda _: [], "must be the JSON of a trace"),
        (lambda _: [[[]], []], "must be the JSON of a trace"),
        (lambda steps: [steps[0], [[len(steps[0]), 1]]], "must be the JSON of a trace"),
        (lambda steps: [steps[0], [["0", 1]]], "must be the JSON of a trace"),
    ],
)
def test_damaged_trace_is_refused(text: str, damage: Callable[[Any], Any], says: str) -> None:
    damaged = json.dumps(damage(json.loads(text)), separators=(",", ":"))
    with pytest.raises(InvalidConfig, match=f"trace: .*{says}.*"):
        TRACE.schedule(WORKLOAD, TRACE.config(damaged))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("[[", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        (None, "must be the JSON of a trace"),
        (7, "must be the JSON of a trace"),
    ],
)
def test_value_that_is_no_trace_is_refused(value: Any, says: str) -> None:
    with pytest.raises(InvalidConfig, match=f"trace: {says}"):
        TRACE.schedule(WORKLOAD, {"template": "trace", "trace": value})


def test_trace_of_another_workload_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="it is of another workload"):
        TRACE.schedule(Conv1dWorkload(M=61, N=5), TRACE.config(text))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("pragma_import_llvm", 'module asm "nop"', "'.*nop.*' is no name"),
        (
            "pragma_import_llvm",
            "foreign.ll",
            "'pragma_import_llvm' is no annotation of MetaSchedule",
        ),
        ("pragma_import_c", "foreign.bc", "'pragma_import_c' is no annotation of MetaSchedule"),
    ],
)
def test_trace_that_imports_code_is_refused(key: str, value: str, says: str) -> None:
    """TVM would link the code into a library that the worker then signs."""
    schedule = tiled()
    schedule.annotate(schedule.get_loops(schedule.get_sblock("y"))[0], key, value)
    with pytest.raises(InvalidConfig, match=f"trace: {says}"):
        TRACE.schedule(WORKLOAD, TRACE.config(trace_text(schedule.trace)))


def test_trace_with_metaschedules_annotations_is_accepted() -> None:
    schedule = tiled()
    outer = schedule.get_loops(schedule.get_sblock("y"))[0]
    schedule.annotate(outer, "pragma_auto_unroll_max_step", 16)
    schedule.annotate(schedule.get_sblock("y"), "meta_schedule.tiling_structure", "SSRSRS")
    TRACE.schedule(WORKLOAD, TRACE.config(trace_text(schedule.trace)))


def test_trace_with_an_index_map_is_refused() -> None:
    """An index map in a trace is a program: JSON that may describe any of TVM's objects."""
    schedule = tiled()
    schedule.transform_layout("y", ("write", 0), lambda i: (i // 4, i % 4), pad_value=None)
    with pytest.raises(InvalidConfig, match="is no name"):
        TRACE.schedule(WORKLOAD, TRACE.config(trace_text(schedule.trace)))
