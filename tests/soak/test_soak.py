"""A soak of half a minute, which finds fast leaks and wrong answers.

``make soak`` runs the full hour.
"""

from pathlib import Path

import pytest

from tests.soak.judge import missed
from tests.soak.page import figures, markdown
from tests.soak.soak import Plan, soak


@pytest.mark.timeout(600)
def test_short_soak_leaks_nothing_and_gets_no_wrong_answer(tmp_path: Path) -> None:
    plan = Plan(
        seconds=10.0,
        seed=3,
        warm_seconds=4.0,
        first_rest_seconds=2.0,
        calm_seconds=0.0,
        interval=0.5,
    )
    said: list[str] = []
    outcome = soak(tmp_path, plan, said.append)
    assert missed(outcome) == []
    assert outcome.accounts.trials >= 3
    assert outcome.accounts.answers.keys() >= {200, 201, 202}
    assert {"ordered by the client", "stream opened"} <= outcome.tally.done.keys()
    assert len(outcome.samples) > 10
    page = markdown(figures(outcome, "python -m tests.soak"))
    assert "Bars missed: none." in page
    assert "| worker's builder |" in page
