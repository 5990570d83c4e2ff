"""Messages between worker and RPC server arrive unchanged, and an answer that does not fit its
format is refused."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.compare.comparison import Comparison, Entry
from tuner.device import cpu_facts
from tuner.device.device import Device
from tuner.errors import ForeignServer
from tuner.farm import wire
from tuner.measure.trial import Measured

texts = st.text(max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(min_value=0, max_value=2**53)
timings = st.dictionaries(texts, st.dictionaries(texts, numbers | counts, max_size=3))
errors = st.floats(allow_nan=False) | st.none()
failures = st.sampled_from(["wrong_answer", "run_error", "run_timeout"])


def carried(value: dict[str, Any]) -> dict[str, Any]:
    """Return the message as it arrives: through JSON and back."""
    arrived: dict[str, Any] = json.loads(json.dumps(value))
    return arrived


@given(
    st.builds(
        Measured,
        failures,
        texts | st.none(),
        numbers | st.none(),
        timings,
        st.dictionaries(texts, numbers),
    ),
    st.floats(min_value=1e-9, max_value=1e9),
)
def test_measurement_arrives_unchanged(measured: Measured, time_us: float) -> None:
    worked = replace(measured, status="ok", timing={"warm": {"median_us": time_us, "samples": 9}})
    for each in (measured, worked):
        assert wire.read(Measured, carried(asdict(each))) == each


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"status": "splendid"}, "status"),
        ({"timing": {}}, "ok without a time"),
        ({"timing": {"warm": {"median_us": float("inf")}}}, "finite"),
        ({"timing": {"warm": {"median_us": 1.0, "samples": 10**400}}}, "samples"),
        ({"error": "x" * 10_001}, "10000"),
        ({"seconds": {"check": "long"}}, "seconds.check"),
    ],
)
def test_malformed_measurement_is_refused(wrong: dict[str, Any], says: str) -> None:
    right: dict[str, Any] = {"status": "ok", "timing": {"warm": {"median_us": 1.0}}}
    wire.read(Measured, carried(right))
    with pytest.raises(ForeignServer, match=says):
        wire.read(Measured, carried(right | wrong))


@pytest.mark.parametrize("said", [{}, {"entries": 1, "dropped": {}}, {"entries": {"a": {}}}])
def test_malformed_round_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ForeignServer, match="not as agreed"):
        wire.read(Comparison, carried(said))


@given(
    st.dictionaries(texts, st.builds(Entry, texts, timings, errors), max_size=3),
    st.dictionaries(texts, texts, max_size=3),
    st.dictionaries(texts, numbers, max_size=3),
    st.lists(texts, max_size=3),
)
def test_round_arrives_unchanged(
    entries: dict[str, Entry],
    dropped: dict[str, str],
    clocks: dict[str, float],
    overtaken: list[str],
) -> None:
    found = Comparison(entries, dropped, clocks, overtaken=overtaken)
    assert wire.read(Comparison, carried(asdict(found))) == found


@pytest.fixture(scope="module")
def device() -> Device:
    return replace(cpu_facts.device(), name="Größer × 2")


def introduction(device: Device) -> dict[str, Any]:
    return {"server": "one", "device": asdict(device), "same": wire.REQUIRED_VERSIONS}


def test_device_arrives_unchanged(device: Device) -> None:
    assert wire.read_introduction(carried(introduction(device))) == wire.Introduction("one", device)


@pytest.mark.parametrize("absent", ["server", "device", "same"])
def test_server_with_a_malformed_introduction_is_refused(device: Device, absent: str) -> None:
    said = introduction(device)
    for wrong in ({k: v for k, v in said.items() if k != absent}, said | {absent: [1]}):
        with pytest.raises(ForeignServer):
            wire.read_introduction(carried(wrong))


@pytest.mark.parametrize("name", sorted(wire.REQUIRED_VERSIONS))
def test_server_of_another_version_is_refused_with_what_differs(name: str) -> None:
    wire.check_versions(carried(wire.REQUIRED_VERSIONS))
    for other in (
        carried(wire.REQUIRED_VERSIONS) | {name: "0"},
        {k: v for k, v in wire.REQUIRED_VERSIONS.items() if k != name},
    ):
        with pytest.raises(
            ForeignServer, match=rf"{name} (0|None), this worker .*install the same"
        ):
            wire.check_versions(other)
