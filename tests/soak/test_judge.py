"""The judge of a soak reports growth, leaks and harm, and accepts a soak without them."""

from dataclasses import replace
from typing import Any

import pytest

from tests.soak.accounts import Accounts
from tests.soak.idle import Idle
from tests.soak.judge import growth, leaks, missed
from tests.soak.samples import Sample, Usage
from tests.soak.soak import Outcome, Plan
from tests.soak.tally import Tally

HOUR = Plan(3600.0, 1, 180.0, 11.0, 90.0, 4.0)
AT_REST = Idle(3, 7, 4, 4, 4, 6, 1, 1, 1, 1, 4)


def sample(at: float, **changes: Any) -> Sample:
    """Return an ordinary sample, with these changes."""
    api, worker = Usage(120.0, 90.0, 5, 9, 4, 4), Usage(300.0, 160.0, 4, 6, 1, 1)
    values: dict[str, Any] = {
        "api": api,
        "worker": worker,
        "tree_rss_mb": 700.0,
        "tree_pss_mb": 500.0,
        "builder_rss_mb": 285.0,
        "descendants": 2,
        "descendants_threads": 4,
        "descendants_descriptors": 9,
        "database_mb": 1.0,
        "wal_mb": 4.0,
    }
    return Sample(at=at, **values | changes)


@pytest.fixture
def good() -> Outcome:
    """The outcome of an hour's soak that misses no limit."""
    tally = Tally()
    for _ in range(10_000):
        tally.answered(200)
    return Outcome(
        plan=HOUR,
        samples=[sample(float(at)) for at in range(0, 3600, 20)],
        first=AT_REST,
        last=AT_REST,
        accounts=Accounts(states={"succeeded": 9, "cancelled": 1}, answers={200: 9_990, 404: 10}),
        tally=tally,
        kills=3,
        exit_codes={"api": -15, "worker-a": 0},
        orphans=[],
    )


def growing(by: float, name: str) -> list[Sample]:
    """Return an hour's samples in which ``name`` grows steadily by this part of its first value."""
    samples = []
    for at in range(0, 3600, 20):
        plain, factor = sample(float(at)), 1 + by * at / 3600
        if name in ("api", "worker"):
            usage: Usage = getattr(plain, name)
            samples.append(replace(plain, **{name: replace(usage, rss_mb=usage.rss_mb * factor)}))
        else:
            samples.append(replace(plain, **{name: getattr(plain, name) * factor}))
    return samples


def test_good_soak_misses_no_limit(good: Outcome) -> None:
    assert missed(good) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("api", "memory of the API grew"),
        ("worker", "memory of the worker grew"),
        ("tree_rss_mb", "memory of the worker's tree grew"),
        ("builder_rss_mb", "memory of the worker's builder grew"),
    ],
)
def test_memory_growth_above_five_percent_is_reported(good: Outcome, name: str, said: str) -> None:
    # the judge compares minutes 12.5 and 57.5: 9 % an hour is 6.6 % there, 5 % an hour is 3.7 %
    good.samples = growing(0.09, name)
    [line] = missed(good)
    assert line.startswith(said)
    good.samples = growing(0.05, name)
    assert missed(good) == []


def test_samples_with_an_unusual_number_of_children_are_ignored(good: Outcome) -> None:
    good.samples = [
        sample(float(at), descendants=3, tree_rss_mb=1100.0)
        if at % 60 == 0
        else sample(float(at), tree_rss_mb=700.0)
        for at in range(0, 3600, 20)
    ]
    assert growth(good)["worker's tree"] == (700.0, 700.0, 0.0)


def test_growth_that_was_not_measured_counts_as_missed(good: Outcome) -> None:
    good.samples = [each for each in good.samples if each.at < 3000]
    assert len(missed(good)) == 4


def test_a_short_soak_is_not_judged_by_its_growth(good: Outcome) -> None:
    good.plan = replace(HOUR, seconds=600.0)
    good.samples = growing(9.0, "api")
    assert missed(good) == []


def test_leaks_are_reported_except_within_the_bounds_of_pools() -> None:
    """Each count that is higher at the last rest is a leak, except within a pool's bound."""
    for name in Idle.__dataclass_fields__:
        more = replace(AT_REST, **{name: getattr(AT_REST, name) + 40})
        [line] = leaks(AT_REST, more)
        assert line.startswith(name.replace("_", " "))
    filled = replace(AT_REST, api_connections=6, api_database_descriptors=12, worker_connections=3)
    assert leaks(AT_REST, filled) == []
    assert len(leaks(AT_REST, replace(AT_REST, api_threads=4, worker_descriptors=7))) == 2
    assert leaks(AT_REST, replace(AT_REST, api_threads=2)) == []


def test_every_kind_of_harm_is_reported(good: Outcome) -> None:
    accounts = good.accounts
    for harmed, said in (
        (replace(good, orphans=["7: child_main"]), "orphan: 7"),
        (replace(good, stuck=["Dropper"]), "Dropper did not come"),
        (replace(good, exit_codes={"api": 1, "worker-a": 0}), "api ended with 1"),
        (replace(good, exit_codes={"api": 0, "worker-a": -15}), "worker-a ended with -15"),
        (replace(good, accounts=replace(accounts, unended=1)), "1 jobs are open"),
        (replace(good, accounts=replace(accounts, answers={200: 9, 503: 2})), "2 answers are 5xx"),
        (replace(good, accounts=replace(accounts, errors=["x"])), "logged: x"),
        (replace(good, accounts=replace(accounts, torn=["a: 2"])), "trials are not whole: job a"),
        (replace(good, accounts=replace(accounts, wrong=["y"])), "tuner db check: y"),
        (replace(good, accounts=replace(accounts, states={"failed": 1})), "no job has succeeded"),
    ):
        [line] = missed(harmed)
        assert line.startswith(said)


def test_one_broken_request_in_a_thousand_is_accepted(good: Outcome) -> None:
    """One broken request in 1000 is accepted, more are not; nor is any wrong answer."""
    for _ in range(10):
        good.tally.broke_off(ConnectionError("reset"))
    assert missed(good) == []
    good.tally.broke_off(ConnectionError("reset"))
    assert len(missed(good)) == 1
    good.tally.went_wrong("GET /: 404")
    assert missed(good)[0] == "1 answers were wrong; the first:"
