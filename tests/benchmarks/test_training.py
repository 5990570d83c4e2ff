"""The pages on gradients: their sums, their bars, and their agreement with their figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.training import cpu, layers, page
from tests.benchmarks.training.__main__ import merged

DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def row(time_us: float, **pytorch: float | None) -> dict[str, Any]:
    peers = [
        {"name": f"pytorch {layout}", "time_us": time, "error": None, "speedup": None}
        for layout, time in pytorch.items()
    ]
    return {"best": {"timing": {"warm": {"median_us": time_us}}, "baselines": peers}}


ROWS = {
    "a k3 forward": row(3.0, NCHW=1.0, NHWC=4.0),
    "a k3 input gradient": row(2.0, NCHW=30.0, NHWC=8.0),
    "a k3 weight gradient": row(5.0, NCHW=9.0, NHWC=8.0),
}


def test_layer_is_compared_with_the_layout_of_the_smaller_sum() -> None:
    found = page.layer(ROWS, "a k3")
    assert found is not None
    assert (found.sum, found.layout, found.fastest, found.times_as_fast) == (10, "NHWC", 20, 2)


def test_compiled_time_counts_if_it_is_faster() -> None:
    compiled = row(3.0, **{"compiled NHWC": 2.0}, NCHW=1.0, NHWC=4.0)
    found = page.layer(ROWS | {"a k3 forward": compiled}, "a k3")
    assert found is not None
    assert found.fastest == 18


def test_layout_not_timed_in_every_direction_is_ignored() -> None:
    untimed = row(5.0, NCHW=9.0, NHWC=None)
    found = page.layer(ROWS | {"a k3 weight gradient": untimed}, "a k3")
    assert found is not None
    assert (found.layout, found.fastest) == ("NCHW", 40)


@pytest.mark.parametrize("lacking", [{}, {"error": "no best"}])
def test_layer_that_lacks_a_direction_is_not_judged(lacking: dict[str, Any]) -> None:
    rows = ROWS | {"a k3 weight gradient": lacking}
    assert page.layer({name: each for name, each in rows.items() if each}, "a k3") is None


def test_training_bars_are_not_judged_until_every_layer_is_measured() -> None:
    first = layers.named(1)[0]
    rows = [
        {"name": f"{first} {direction}", **row(1.0, NCHW=9.0, NHWC=2.0)}
        for direction in layers.DIRECTIONS.values()
    ]
    most, *_, mean, least = page.verdicts({"rows": rows})
    assert most.state == "not measured"
    assert mean.state == least.state == "not measured (1 of 17 layers)"


def test_training_shapes_are_all_different() -> None:
    found = layers.shapes()
    assert len({shape.name for shape in found}) == len(found)
    assert len({json.dumps(shape.fields, sort_keys=True) for shape in found}) == len(found)


def test_training_page_matches_its_figures() -> None:
    result = json.loads((DOCS / "training.json").read_text())
    assert merged([result])["rows"] == result["rows"]
    assert page.markdown(result) == (DOCS / "training.md").read_text()


def test_cpu_training_page_matches_its_figures() -> None:
    result = json.loads((DOCS / "training-cpu.json").read_text())
    assert cpu.markdown(result) == (DOCS / "training-cpu.md").read_text()
