"""Shapes of live predictions, and their page, made from invented figures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from templates import operators
from templates.workload import Workload
from tests.benchmarks.limits.shapes import Shape
from tests.benchmarks.predicted.__main__ import KINDS
from tests.benchmarks.predicted.known import known
from tests.benchmarks.predicted.live import as_fast_as_pytorch, as_fast_as_tuned, merged
from tests.benchmarks.predicted.live_page import markdown, verdicts
from tests.benchmarks.predicted.shapes import TO_PREDICT, extents, to_judge, to_search
from tests.benchmarks.test_limits import RUN, row

TUNED, PREDICTED = ({"template": "made", "knob": knob} for knob in (1, 2))


@pytest.mark.parametrize("draw", [to_judge, to_search])
@pytest.mark.parametrize("kind", KINDS)
def test_shapes_to_judge_share_no_extents_with_learnt_shapes(
    kind: str, draw: Callable[[str, int], list[Workload]]
) -> None:
    learnt = {
        extents(example.shape.shape)
        for operator in operators()
        for each in KINDS
        for example in known(operator.name, each)
    }
    judged = draw(kind, TO_PREDICT)
    assert len({each.key for each in judged}) == TO_PREDICT
    assert {each.operator for each in judged} == {each.name for each in operators()}
    assert learnt
    assert not learnt & {*map(extents, judged)}


def test_prediction_is_compared_within_the_last_round_of_the_search() -> None:
    one = found("one", tuned_us=10, predicted_us=12.5, pytorch_NCW=20)
    assert as_fast_as_tuned(one) == pytest.approx(0.8)
    assert as_fast_as_pytorch(one) == pytest.approx(20 / 12.5)
    one["best"]["baselines"][0]["speedup"] = 20 / 14  # over a call, 4 µs longer than the kernel
    assert as_fast_as_pytorch(one) == pytest.approx(20 / 16.5)


def test_live_bars_are_judged_over_all_drawn_shapes() -> None:
    rows = [
        found("one", tuned_us=10, predicted_us=10, pytorch_NCW=20),
        found("two", tuned_us=10, predicted_us=12.5, pytorch_NCW=11),
    ]
    parts = [{"shapes": 2, "runs": [RUN], "rows": [each]} for each in rows]
    result = merged(parts)
    assert [each["name"] for each in result["rows"]] == ["two", "one"]
    mean, least = verdicts(result)
    assert (mean.state, mean.value) == ("reached", pytest.approx(0.8**0.5))
    assert (least.state, least.of) == ("**not reached**", "two")
    text = markdown(result)
    assert (
        "| `template=made knob=2` | **12.50** | `template=made knob=1` | 10.00 | **0.80** |" in text
    )
    assert "| pytorch NCW | 11.00 | 0.88 | 4 | 1.5 |" in text


def test_live_predictions_page_matches_its_figures() -> None:
    docs = Path(__file__).parents[2] / "docs/benchmarks"
    result = json.loads((docs / "predicted-live.json").read_text())
    assert markdown(merged([result])) == (docs / "predicted-live.md").read_text()


def test_live_page_names_a_failed_shape_and_counts_it_as_missing() -> None:
    rows = [
        found("one", tuned_us=10, predicted_us=10, pytorch_NCW=20),
        {"name": "two", "run": 0, "error": "nothing worked"},
    ]
    result = merged([{"shapes": 2, "runs": [RUN], "rows": rows}])
    assert [each.state for each in verdicts(result)] == ["reached by 1 of 2 shapes"] * 2
    assert "- two: not measured. nothing worked" in markdown(result)


def found(name: str, *, tuned_us: float, predicted_us: float, **peers: float) -> dict[str, Any]:
    """Return a row with these times of the search's fastest, the prediction and peers, in µs."""
    made = row(Shape(name, "conv1d", "conv1d", {"M": 64, "N": 3}), tuned_us, **peers)
    made["best"]["config"] = TUNED
    made["best"]["timing"]["finalists"] = [
        {"config": TUNED, "median_us": tuned_us},
        {"config": PREDICTED, "median_us": predicted_us},
    ]
    answer = {"config": PREDICTED, "trials": 4, "seconds": 1.5}
    return made | {"predicted": answer}
