"""Searches that end early (cancel, budget, full disk), and searches that are ordered again."""

import pytest
from processes import Database
from runs import Bench, Clock, cancel_after
from structlog.testing import capture_logs

from db.results import best
from tests.acceptance.deceptive import SlowBuild, Small
from tuner.build.builder import BUILD_SECONDS, Builder
from tuner.errors import NoDiskSpace
from tuner.job.lease import Cancelled
from tuner.job.pipeline import BATCH
from tuner.job.progress import Progress
from tuner.measure.cases import CASES

SHAPE = {"M": 512, "N": 8}


def test_a_cancel_is_seen_by_the_next_trial(database: Database, bench: Bench) -> None:
    job = database.submit(SHAPE, trials=1000)
    with pytest.raises(Cancelled):
        bench.run(database, job, watch=cancel_after(2, database, job))
    assert len(database.trials(job)) == 2


def test_a_cancel_is_seen_while_builds_are_awaited(database: Database, bench: Bench) -> None:
    job = database.submit(SHAPE, trials=5)
    since = Clock()
    watch = cancel_after(0, database, job)
    with Builder(1) as builder, pytest.raises(Cancelled):
        Bench(bench.device, builder).run(database, job, among=[SlowBuild()], watch=watch)
    assert since() < BUILD_SECONDS / 2
    assert database.trials(job) == []


def test_job_fails_if_it_needs_more_scratch_space_than_allowed(
    database: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job fails if its inputs and references would take more than TUNER_SCRATCH_BYTES.

    A shape of 200 bytes of JSON may need more than the default of 12 GiB.
    """
    monkeypatch.setenv("TUNER_SCRATCH_BYTES", "10000")
    large = database.submit(SHAPE)
    needed = len(CASES) * (4 * (512 + 8) + 8 * (512 + 7))
    with pytest.raises(
        NoDiskSpace, match=f"take {needed} bytes .* TUNER_SCRATCH_BYTES allows 10000"
    ):
        bench.run(database, large)
    small = database.submit({"M": 16, "N": 3}, trials=1)
    assert bench.run(database, small).state == "succeeded"


class OwnTime:
    """A stand-in for the module ``time`` whose clock the test moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_the_budget_ends_the_search_and_a_best_is_found(
    database: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = OwnTime()
    monkeypatch.setattr("tuner.job.job.time", time)
    job = database.submit(SHAPE, trials=100_000, budget_seconds=1000.0)

    def watch(progress: Progress) -> None:
        time.now += 100.0  # the tenth trial uses up the budget

    ended = bench.run(database, job, watch=watch)
    assert (ended.state, ended.trials_measured) == ("succeeded", 10)
    (found,) = best.lookup(database.engine, job.workload_key)
    assert found.trials_measured == ended.trials_measured


def test_a_budget_that_is_over_at_once_still_allows_a_first_batch(
    database: Database, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=1000, budget_seconds=0.001)
    ended = bench.run(database, job)
    assert (ended.state, ended.trials_measured) == ("succeeded", BATCH)


def test_retuning_measures_nothing_twice(database: Database, bench: Bench) -> None:
    first = database.submit(SHAPE, trials=3, search="grid")
    second = database.submit(SHAPE, trials=3, search="grid", seed=2)
    with capture_logs() as said:
        with pytest.raises(Cancelled):
            bench.run(database, first, watch=cancel_after(3, database, first))
        assert bench.run(database, second).trials_measured == 3
    assert "trial_known" not in {line["event"] for line in said}  # no result was dropped, either
    measured = [*database.trials(first), *database.trials(second)]
    assert [trial.number for trial in measured] == [1, 2, 3] * 2
    assert len({trial.config_key for trial in measured}) == 6


def test_retuning_an_exhausted_space_still_chooses_a_new_best(
    database: Database, bench: Bench
) -> None:
    """If all configurations are measured already, a new job still chooses a best of its own."""
    first = database.submit(SHAPE, trials=50)
    with pytest.raises(Cancelled):
        bench.run(database, first, among=[Small()], watch=cancel_after(2, database, first))
    again = database.submit(SHAPE, trials=50, seed=2)
    ended = bench.run(database, again, among=[Small()])
    assert (ended.state, ended.trials_measured) == ("succeeded", 0)
    (found,) = best.lookup(database.engine, again.workload_key)
    assert found.job_id == again.id


def test_reusing_gives_the_same_job(database: Database, bench: Bench) -> None:
    job = database.submit(SHAPE, trials=2, on_existing="reuse")
    bench.run(database, job)
    again = database.submit(SHAPE, trials=2, on_existing="reuse", search="grid", seed=5)
    assert (again.id, again.state) == (job.id, "succeeded")
    assert database.submit(SHAPE, trials=3, on_existing="reuse").id != job.id
