"""The estimated time to a job's end, compared with numbers worked out by hand."""

from typing import Any

import pytest

from tuner.job.progress import eta_seconds


@pytest.mark.parametrize(
    ("known", "seconds"),
    [
        ({"left": 40}, 80.0),
        ({"left": 40, "patience_left": 15}, 30.0),
        ({"left": 5, "patience_left": 15}, 10.0),
        ({"left": 40, "patience_left": 0}, 0.0),
        ({"left": 40, "patience_left": -2}, 0.0),  # libraries built ahead are still measured
        ({"left": 40, "budget_seconds": 70.0}, 50.0),
        ({"left": 40, "budget_seconds": 70.0, "patience_left": 20}, 40.0),
        ({"left": 40, "budget_seconds": 70.0, "patience_left": 30}, 50.0),
        ({"left": 40, "budget_seconds": 10.0}, 0.0),
        ({"left": 0, "patience_left": 15}, 0.0),
    ],
)
def test_eta_follows_from_ten_trials_in_twenty_seconds(
    known: dict[str, Any], seconds: float
) -> None:
    assert eta_seconds(elapsed=20.0, fresh=10, **known) == seconds


def test_eta_before_the_first_trial_comes_only_from_a_budget() -> None:
    assert eta_seconds(elapsed=3.0, fresh=0, left=40, patience_left=5) is None
    assert eta_seconds(elapsed=3.0, fresh=0, left=40, budget_seconds=10.0) == 7.0
