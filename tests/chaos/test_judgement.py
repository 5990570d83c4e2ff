"""Which damage counts as harm, for which ``python -m tests.chaos`` exits with 1."""

import re
from typing import Any

import pytest

from tests.chaos.damage import HARMS, Damage, harm
from tests.chaos.page import page

BLOWS = {"kill": 3, "pause": 1}


def damage(**changes: Any) -> Damage:
    """Return the damage of a storm without harm, with these changes."""
    usual: dict[str, Any] = {
        "blows": dict(BLOWS),
        "states": {"succeeded": 4, "failed": 1},
        "trials": 12,
        "refused": 2,
        "reasons": ['could not extend file "base/1/2": No space left on device'],
        "longest_orphan_seconds": 31.0,
    }
    return Damage(**usual | changes)


def test_refused_writes_and_failed_jobs_are_no_harm() -> None:
    assert harm(damage(), BLOWS) == []


@pytest.mark.parametrize("name", HARMS)
def test_each_count_that_must_be_0_is_harm_if_it_is_not(name: str) -> None:
    (said,) = harm(damage(**{name: 2}), BLOWS)
    assert said == f"{name}: 2 ({HARMS[name]})"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"inconsistent": ["job 1 has 2 trials, counted 3"]}, "inconsistent: job 1 has 2 trials"),
        ({"longest_orphan_seconds": 36.0}, "after 36.0 s, more than 35 s"),
        ({"blows": {"kill": 2, "pause": 1}}, "asked for .*'kill': 3.* done was .*'kill': 2"),
        ({"trials": 0}, "nothing was tried"),
    ],
)
def test_findings_late_orphans_and_incomplete_storms_are_harm(
    changes: dict[str, Any], says: str
) -> None:
    (said,) = harm(damage(**changes), BLOWS)
    assert re.search(says, said)


def test_filling_is_harm_if_the_disk_was_never_full() -> None:
    (said,) = harm(damage(blows={"filling": 1}, refused=0), {"filling": 1})
    assert said.startswith("no write was refused")


def test_chaos_page_shows_counts_harm_and_refusals() -> None:
    storms = [
        {
            "storm": name,
            "seconds": 5.1,
            "harm": harm(each, BLOWS),
            "damage": each.to_json(),
        }
        for name, each in {"calm": damage(), "bad": damage(lost=1, left=2, trials=0)}.items()
    ]
    result = {"device": "a CPU", "date": "2026-01-02", "command": "x", "storms": storms}
    said = page(result)
    assert "6 SIGKILLs, 2 pauses beyond a lease" in said
    assert ": 1 lost, 0 doubled, 0 stale, 0 early." in said
    calm, bad = (line for line in said.splitlines() if line.startswith(("| calm", "| bad")))
    assert "| none | 31.0 | 2 | 5 |" in calm
    assert "left 2; no trial was stored" in bad
    assert "- could not extend file …: No space left on device" in said
