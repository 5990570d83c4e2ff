"""A job's trials are filtered and sorted alike on both engines."""

from typing import Any

import pytest
from sqlalchemy import Engine
from storage_rows import claimed, device, new_trial, submitted

from db.results import trial_table, trials
from db.results.trial_table import TrialFilter, find_trials
from db.sql.errors import NotFound


@pytest.fixture
def job(engine: Engine) -> str:
    """The id of a job with trials of two templates, one of them failed."""
    submitted(engine)
    held = claimed(engine)
    place = device(engine).id
    base: dict[str, Any] = {"template": "direct", "threads": 128, "parallel": True}
    failed = {"status": "build_error", "time_us": None, "max_error": None}
    fft = {"template": "fft", "splits": [4, 8], "ratio": 0.5}
    configs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (base, {"time_us": 5.0, "max_error": 2e-7}),
        (base | {"threads": 64}, {"time_us": 3.0, "max_error": 3e-7}),
        (base | {"parallel": False}, failed),
        (fft, {"time_us": 4.0, "max_error": 1e-7, "template": "fft"}),
    ]
    new = [new_trial(place, 0, config=config, **more) for config, more in configs]
    trials.add(engine, held.id, held.attempt, new)
    return held.id


def numbers(engine: Engine, job: str, sort: str = "time_us", **wanted: Any) -> list[int]:
    """Return the numbers of the trials that are found, in their order."""
    descending = wanted.pop("descending", False)
    found, count = find_trials(engine, job, TrialFilter(**wanted), sort, descending)
    assert count == len(found)
    return [trial["number"] for trial in found]


def test_trial_without_a_value_is_sorted_last_in_either_order(engine: Engine, job: str) -> None:
    assert numbers(engine, job) == [2, 4, 1, 3]
    assert numbers(engine, job, descending=True) == [1, 4, 2, 3]
    assert numbers(engine, job, "number", descending=True) == [4, 3, 2, 1]
    assert numbers(engine, job, "max_error") == [4, 1, 2, 3]


def test_trials_are_filtered_by_status_template_and_knobs(engine: Engine, job: str) -> None:
    assert numbers(engine, job, status="build_error") == [3]
    assert numbers(engine, job, template="fft") == [4]
    assert numbers(engine, job, knobs={"threads": "128"}) == [1, 3]
    assert numbers(engine, job, knobs={"threads": "128", "parallel": "True"}) == [1]
    assert numbers(engine, job, knobs={"parallel": "false"}) == [3]
    assert numbers(engine, job, knobs={"splits": "[4, 8]"}) == [4]
    assert numbers(engine, job, knobs={"ratio": "0.5"}) == [4]
    assert numbers(engine, job, status="ok", knobs={"nothing": "1"}) == []


def test_filter_text_that_no_database_holds_matches_nothing(engine: Engine, job: str) -> None:
    assert numbers(engine, job, status="\0") == []
    assert numbers(engine, job, knobs={"threads": "\ud800"}) == []


def test_count_of_trials_ignores_the_limit_of_a_page(engine: Engine, job: str) -> None:
    found, count = find_trials(engine, job, TrialFilter(), limit=1)
    assert ([trial["number"] for trial in found], count) == ([2], 4)


def test_trials_are_read_in_batches(
    engine: Engine, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_table, "BATCH", 2)
    told = list(trial_table.batches(engine, job, TrialFilter()))
    assert [[trial["number"] for trial in batch] for batch in told] == [[1, 2], [3, 4]]
    assert trial_table.templates_of(engine, job) == ["direct", "fft"]


def test_unknown_job_has_no_trials_and_an_invalid_id_raises_not_found(engine: Engine) -> None:
    assert find_trials(engine, "0" * 32, TrialFilter()) == ([], 0)
    with pytest.raises(NotFound):
        find_trials(engine, "nothing", TrialFilter())
