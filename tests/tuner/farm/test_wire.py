"""What crosses between worker and server arrives as it was sent."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner.measure.finals import Entry, Finals

from tuner import cpu_facts
from tuner.errors import ForeignServer
from tuner.farm import wire
from tuner.measure.trial import Measured

texts = st.text(max_size=20)
numbers = st.floats(allow_nan=False)
timings = st.dictionaries(texts, st.dictionaries(texts, numbers | st.integers(), max_size=3))
errors = numbers | st.none()


def carried(value: dict[str, Any]) -> dict[str, Any]:
    arrived: dict[str, Any] = json.loads(json.dumps(value))
    return arrived


@given(
    st.builds(Measured, texts, texts | st.none(), errors, timings, st.dictionaries(texts, numbers))
)
def test_a_measurement_arrives(measured: Measured) -> None:
    assert wire.measured_from_json(carried(wire.measured_to_json(measured))) == measured


@given(
    st.dictionaries(texts, st.builds(Entry, texts, timings, errors), max_size=3),
    st.dictionaries(texts, texts, max_size=3),
    st.dictionaries(texts, numbers, max_size=3),
)
def test_a_round_arrives(
    entries: dict[str, Entry], dropped: dict[str, str], clocks: dict[str, float]
) -> None:
    finals = Finals(entries, dropped, clocks)
    assert wire.finals_from_json(carried(wire.finals_to_json(finals))) == finals


def test_a_device_arrives() -> None:
    device = replace(cpu_facts.device(), name="Größer × 2")
    assert wire.device_from_json(carried(wire.device_to_json(device))) == device


@pytest.mark.parametrize("name", sorted(wire.SAME))
def test_other_versions_are_refused_by_name(name: str) -> None:
    wire.check_same(carried(wire.SAME))
    for other in (
        carried(wire.SAME) | {name: "0"},
        {k: v for k, v in wire.SAME.items() if k != name},
    ):
        with pytest.raises(
            ForeignServer, match=rf"{name} (0|None), this worker .*install the same"
        ):
            wire.check_same(other)
