"""A job that starts from the trials of earlier jobs, and a search that ends by its patience."""

from typing import Any

import pytest
from processes import Database
from runs import Bench, cancel_after

from db import queue
from tests.acceptance.deceptive import Doomed
from tuner.errors import NothingWorked
from tuner.job.lease import Cancelled
from tuner.job.progress import eta_seconds


def cancelled(database: Database, bench: Bench, job: queue.Job, measured: int) -> queue.Job:
    """Run the job, cancel it after ``measured`` trials, and return it as it is then."""
    with pytest.raises(Cancelled):
        bench.run(database, job, watch=cancel_after(measured, database, job))
    return queue.get(database.engine, job.id)


def test_a_job_begins_with_the_trials_of_another_shape(database: Database, bench: Bench) -> None:
    first = cancelled(database, bench, database.submit({"M": 512, "N": 8}, search="xgb"), 6)
    assert first.warmed == {"jobs": 0, "trials": 0}
    relu = {"M": 700, "N": 8, "bias": True, "activation": "relu"}
    second = cancelled(database, bench, database.submit(relu, search="xgb"), 8)
    assert second.warmed == {"jobs": 1, "trials": 6}
    fastest = min(database.trials(first), key=lambda trial: trial.time_us or 1e9)
    assert fastest.config in [trial.config for trial in database.trials(second)]
    random = cancelled(database, bench, database.submit({"M": 800, "N": 8}), 0)
    assert random.warmed == {"jobs": 0, "trials": 0}
    ordered_cold = database.submit({"M": 900, "N": 8}, search="xgb", warm_start=False)
    assert cancelled(database, bench, ordered_cold, 0).warmed is None


def test_patience_ends_the_search_after_trials_that_were_no_faster(
    database: Database, bench: Bench
) -> None:
    ended = bench.run(database, database.submit({"M": 512, "N": 8}, trials=500, patience=4))
    assert ended.state == "succeeded"
    times = [trial.time_us or 1e9 for trial in database.trials(ended)]
    assert times.index(min(times)) + 1 + 4 == len(times) == ended.trials_measured


def test_eta_is_computed_with_the_patience_that_is_left(
    database: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def noted(**known: Any) -> float | None:
        asked.append(known)
        return eta_seconds(**known)

    monkeypatch.setattr("tuner.job.job.eta_seconds", noted)
    ended = bench.run(database, database.submit({"M": 512, "N": 8}, trials=500, patience=4))
    times = [trial.time_us or 1e9 for trial in database.trials(ended)]
    since = [count - times.index(min(times[:count])) - 1 for count in range(1, len(times) + 1)]
    assert [known["patience_left"] for known in asked] == [None, *(4 - each for each in since)]
    assert [known["left"] for known in asked[:2]] == [500, 499]
    assert [known["fresh"] for known in asked] == list(range(len(times) + 1))


def test_patience_waits_for_a_trial_that_works(database: Database, bench: Bench) -> None:
    job = database.submit({"M": 512, "N": 8}, trials=5, patience=1)
    with pytest.raises(NothingWorked, match="none of 3"):
        bench.run(database, job, among=[Doomed()])
