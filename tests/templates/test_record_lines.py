"""Configurations of every space survive being written to a log and read again, and a log's faults
are named."""

import json
from typing import Any

import numpy as np
import pytest

import templates
from templates.errors import InvalidRecords
from templates.records.record import parse
from tests.templates.devices import CPU, H200

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("conv1d", {"M": 70_001, "N": 401}),
    ("conv1d", {"M": 16_384, "N": 32, "dtype": "float16", "max_error": 1e-2}),
    ("depthwise_conv2d", {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7}),
]


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_configurations_of_every_space_survive_a_log(name: str, shape: dict[str, Any]) -> None:
    workload = templates.operator(name).workload.model_validate(shape)
    for limits in (CPU, H200):
        for template in templates.templates_for(workload, limits):
            space = template.space(workload, limits)
            configs = [space[i] for i in space.sample(np.random.default_rng(0), 50)]
            line = {
                "convtune": 1,
                "operator": name,
                "workload": workload.model_dump(),
                "target": template.kind,
                "template": template.name,
                "version": template.version,
            }
            log = [json.dumps(line | {"config": config}).encode() for config in configs]
            found = parse(log)
            assert [each.config for each in found] == configs
            assert {each.workload.key for each in found} == {workload.key}
            assert {each.target for each in found} == {template.kind}


def test_record_of_a_trace_is_refused() -> None:
    """A record of the template ``trace``, found by MetaSchedule's search, is refused in a log."""
    line = {
        "convtune": 1,
        "operator": "conv1d",
        "workload": {"M": 60, "N": 5},
        "target": "cpu",
        "template": "trace",
        "version": 1,
        "config": {"template": "trace", "trace": "[[],[]]"},
    }
    with pytest.raises(InvalidRecords, match=r"template: must not be trace: .* leave the record"):
        parse([json.dumps(line).encode()])


def test_refusal_names_all_faults_of_a_log() -> None:
    with pytest.raises(InvalidRecords) as refused:
        parse([b"{}", b"", b"{", b"[]"])
    assert [(fault.line, fault.field) for fault in refused.value.faults] == [
        (1, "convtune"),
        (3, "record"),
        (4, "record"),
    ]


def test_record_with_a_repeated_name_is_refused() -> None:
    with pytest.raises(
        InvalidRecords, match="record 1: record: 'convtune' is given more than once"
    ):
        parse([b'{"convtune": 1, "convtune": 1}'])
