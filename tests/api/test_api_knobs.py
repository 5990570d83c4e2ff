"""Tables of knobs: the trials of each value, and how much of the times' spread a knob explains."""

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.web import knobs
from api.web.knobs import Sample

groups = st.lists(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=8), min_size=2, max_size=6)


def test_knob_table_has_the_values_and_their_failures() -> None:
    samples: list[Sample] = [
        ({"template": "direct", "threads": 32, "vector": True}, "ok", 4.0),
        ({"template": "direct", "threads": 64, "vector": True}, "ok", 2.0),
        ({"template": "direct", "threads": 64, "vector": True}, "run_error", None),
        ({"template": "direct", "threads": 96, "vector": [1, 2]}, "run_error", None),
    ]
    threads, vector = knobs.knob_tables(samples)
    assert [row["value"] for row in threads["rows"]] == ["64", "32", "96"]
    assert [row["failed"] for row in threads["rows"]] == [1, 0, 1]
    assert [row["value"] for row in vector["rows"]] == ["true", "1 × 2"]


def test_only_the_template_table_covers_trials_of_all_templates() -> None:
    samples: list[Sample] = [
        ({"template": "direct", "threads": 32}, "ok", 4.0),
        ({"template": "direct", "threads": 64}, "ok", 3.0),
        ({"template": "rows", "threads": 1}, "ok", 2.0),
        ({"template": "rows", "threads": 2}, "ok", 2.5),
        ({"template": "rows", "threads": 4}, "wrong_answer", None),
    ]
    template, threads = knobs.knob_tables(samples)
    assert [(row["value"], row["trials"]) for row in template["rows"]] == [
        ("rows", 3),
        ("direct", 2),
    ]
    assert {row["value"] for row in threads["rows"]} == {"1", "2", "4"}


def test_knob_that_explains_most_comes_first() -> None:
    samples: list[Sample] = [
        ({"loud": loud, "mute": mute}, "ok", 10.0**loud * (1 + 0.01 * mute + 0.003 * again))
        for loud in (0, 1, 2)
        for mute in (0, 1)
        for again in (0, 1)
    ]
    first, second = knobs.knob_tables(samples)
    assert (first["name"], second["name"]) == ("loud", "mute")
    assert first["explains"] > 0.99
    assert second["explains"] < 0.01


def test_long_values_are_shown_by_their_ends_and_stay_apart() -> None:
    """Values that share a long end, as traces do, keep rows of their own."""
    decisions = "," * 80
    samples: list[Sample] = [({"trace": first + decisions}, "ok", 2.0) for first in "ab"]
    (trace,) = knobs.knob_tables(samples)
    assert [(row["value"], row["trials"]) for row in trace["rows"]] == [("…" + "," * 79, 1)] * 2


@given(groups)
def test_explained_share_is_kelleys_epsilon_squared(times: list[list[float]]) -> None:
    """The share is Kelley's epsilon squared, computed here from eta squared.

    That is 1 - (1 - eta²) (n - 1) / (n - k), at least 0, for n times in k groups.
    """
    found = knobs.explained(times)
    logs = [[math.log(time) for time in group] for group in times]
    every = [each for group in logs for each in group]
    mean = fmean(every)
    total = sum((each - mean) ** 2 for each in every)
    if total < 1e-9:
        return
    between = sum(len(group) * (fmean(group) - mean) ** 2 for group in logs)
    corrected = 1 - (1 - between / total) * (len(every) - 1) / (len(every) - len(logs))
    assert found == pytest.approx(max(0.0, corrected), abs=1e-6)


@pytest.mark.parametrize("times", [[], [[1.0, 2.0]], [[1.0], [2.0]], [[3.0, 3.0], [3.0]]])
def test_too_few_times_explain_nothing(times: list[list[float]]) -> None:
    assert knobs.explained(times) is None
