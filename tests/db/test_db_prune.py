"""``tuner db prune`` deletes old rows and files, but none that a best or a search needs."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, func, select, text, update
from storage_rows import FILES, claimed, device, everything, new_best, new_trial, submitted

from db import queue
from db.queue import history
from db.records import listed
from db.results import artifacts, best, trials
from db.results.totals import totals
from db.sql import tables
from db.sql.engine import open_engine
from db.sql.errors import DatabaseUnavailable
from db.sql.transaction import reading, writing
from db.upkeep import prune, space
from db.upkeep.check import check

DAY = 86400.0


@pytest.fixture(autouse=True)
def few_warm_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "WARM_JOBS", 0)


def tuned(engine: Engine, length: int, count: int = 5, winner: int | None = 0) -> queue.Job:
    """Return an ended job with ``count`` trials; unless ``winner`` is None, it has that best."""
    gpu = device(engine).id
    submitted(engine, length)
    job = claimed(engine)
    trials.add(engine, job.id, job.attempt, [new_trial(gpu, knob) for knob in range(count)])
    figures = {"measured": count, "ok": count, "failed": 0, "best": None, "eta_seconds": None}
    queue.progress(engine, job.id, job.attempt, **figures, device_id=gpu)
    if winner is None:
        queue.finish(engine, job.id, job.attempt, "cancelled")
    else:
        config = {"threads": winner, "template": "direct"}  # the trial has them in another order
        made = new_best(job, gpu, config=config)
        files = [artifacts.NewArtifact(f"{length}".encode(), "library", "x"), FILES[1]]
        best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(made, files)])
    return queue.get(engine, job.id)


def aged(engine: Engine, days: float, job: queue.Job | None = None) -> None:
    """Make all rows, or those of one job, look as if they were stored so many days earlier."""
    with writing(engine) as connection:
        seq = None
        if job is not None:
            named = select(tables.jobs.c.seq).where(tables.jobs.c.id == job.id)
            seq = connection.execute(named).scalar_one()
        for table, columns in (
            (tables.jobs, ("created_at", "started_at", "finished_at")),
            (tables.trials, ("created_at",)),
            (tables.artifacts, ("created_at",)),
        ):
            older = update(table).values({name: table.c[name] - days * DAY for name in columns})
            if seq is not None:
                if table is tables.artifacts:
                    continue
                older = older.where(table.c["seq" if table is tables.jobs else "job_seq"] == seq)
            connection.execute(older)


def knobs(engine: Engine, job: queue.Job) -> list[int]:
    return [trial.config["threads"] for trial in trials.list_trials(engine, job.id).items]


def test_prune_keeps_the_trial_of_a_best_and_deletes_the_others(engine: Engine) -> None:
    job = tuned(engine, 64, count=5, winner=3)
    [found] = best.lookup(engine, job.workload_key)
    counted = totals(engine)
    aged(engine, 91)
    assert prune.prune(engine, 92) == prune.Pruned(0, 0, 0, 0, 0)
    assert prune.prune(engine, 90) == prune.Pruned(1, 4, 0, 0, 0)
    assert knobs(engine, job) == [3]
    [kept] = best.lookup(engine, job.workload_key)
    assert (kept.artifacts, kept.timing) == (found.artifacts, found.timing)
    assert artifacts.get(engine, kept.artifacts["library"]).content == b"64"
    assert queue.get(engine, job.id).state == "succeeded"
    assert totals(engine).trials == counted.trials  # metrics never decrease
    assert check(engine).wrong == []
    assert prune.prune(engine, 90).trials == 0


def test_dry_run_counts_the_same_rows_and_deletes_nothing(engine: Engine) -> None:
    first, second = tuned(engine, 64), tuned(engine, 65, winner=None)
    again = tuned(engine, 64, count=0)
    assert first.id != again.id
    artifacts.put(engine, b"nobody's", "source", "text/plain")
    aged(engine, 10)
    before = everything(engine)
    would = prune.prune(engine, 5, dry_run=True)
    assert everything(engine) == before
    assert prune.prune(engine, 5) == would
    assert (would.jobs, would.trials) == (2, 4 + 5)
    assert (would.artifacts, would.artifact_bytes) == (1, len(b"nobody's"))
    assert knobs(engine, second) == []
    assert check(engine).wrong == []


def test_prune_deletes_only_the_old_trials_of_a_long_job(engine: Engine) -> None:
    job = tuned(engine, 64, winner=None)
    aged(engine, 10, job)
    with writing(engine) as connection:
        young = tables.trials.c.number > 3
        connection.execute(update(tables.trials).where(young).values(created_at=2e9 * 2))
    assert prune.prune(engine, 5).trials == 3
    assert knobs(engine, job) == [3, 4]


def test_prune_deletes_many_rows_in_several_transactions(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "BATCH", 3)
    monkeypatch.setattr(prune, "ARTIFACTS_AT_ONCE", 2)
    job = tuned(engine, 64, count=10, winner=None)
    for n in range(5):
        artifacts.put(engine, f"file {n}".encode(), "source", "text/plain")
    aged(engine, 10)
    assert prune.prune(engine, 5) == prune.Pruned(1, 10, 0, 5, 5 * len(b"file n"))
    assert knobs(engine, job) == []
    assert check(engine).wrong == []


def test_prune_keeps_trials_of_a_workload_with_an_unfinished_job(engine: Engine) -> None:
    """The job's search reuses these trials, and one of them may win."""
    old = tuned(engine, 64, winner=None)
    aged(engine, 10)
    waiting = submitted(engine, 64)
    assert prune.prune(engine, 5).trials == 0
    running = claimed(engine)
    assert prune.prune(engine, 5).trials == 0
    assert knobs(engine, old) == [0, 1, 2, 3, 4]
    queue.finish(engine, waiting.id, running.attempt, "failed")
    assert prune.prune(engine, 5).trials == 5


def test_prune_keeps_the_last_jobs_for_warm_starts(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "WARM_JOBS", 2)
    gpu = device(engine).id
    jobs = [tuned(engine, length, winner=None) for length in (64, 65, 66)]
    failed = tuned(engine, 67, count=0, winner=None)
    aged(engine, 10)
    assert prune.prune(engine, 5).trials == 5
    assert [len(knobs(engine, job)) for job in jobs] == [0, 5, 5]
    assert knobs(engine, failed) == []
    past = history.latest_trials(engine, jobs[2].workload_key, gpu, "0.27.0", 256)
    assert len(past) == 5


def test_prune_deletes_imported_lists_of_jobs_without_a_best(engine: Engine) -> None:
    job = tuned(engine, 64)
    kept = tuned(engine, 65)
    with writing(engine) as connection:
        rows = {
            name: connection.execute(
                select(tables.jobs.c.seq).where(tables.jobs.c.id == each.id)
            ).scalar_one()
            for name, each in (("job", job), ("kept", kept))
        }
        for seq in rows.values():
            line = {"job_seq": seq, "place": 0, "template_version": 1, "config": {}, "source": {}}
            connection.execute(tables.listed_configs.insert(), [line])
    tuned(engine, 64, count=0)  # another job's best replaces that of 64
    aged(engine, 10)
    assert prune.prune(engine, 5).configs == 1
    assert listed.of_job(engine, job.id) == []
    assert len(listed.of_job(engine, kept.id)) == 1


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ages=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), min_size=1, max_size=5),
    days=st.integers(0, 20),
)
def test_prune_keeps_all_rows_of_a_best_whatever_their_age(
    engine: Engine, ages: list[tuple[int, int]], days: int
) -> None:
    """No pruning deletes a best, its job, its trial or its files."""
    with writing(engine) as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(delete(table))
    for n, (age, winner) in enumerate(ages):
        job = tuned(engine, 64 + n % 3, count=5 if n < 3 else 0, winner=winner)
        aged(engine, age, job)
    with writing(engine) as connection:
        connection.execute(update(tables.artifacts).values(created_at=0.0))

    def resting_on() -> list[Any]:
        found = best.bests_of_operator(engine, "conv1d")
        gpu = device(engine).id
        known = [trials.measured_trials(engine, each.workload_key, gpu, "0.27.0") for each in found]
        return [
            (
                each,
                queue.get(engine, each.job_id),
                [trial for trial in of_it if trial.config["threads"] == each.config["threads"]],
                [artifacts.get(engine, sha256) for sha256 in each.artifacts.values()],
            )
            for each, of_it in zip(found, known, strict=True)
        ]

    before = resting_on()
    assert all(evidence for _, _, evidence, _ in before)
    prune.prune(engine, days)
    assert resting_on() == before
    assert check(engine).wrong == []


def test_reclaim_frees_disk_space_once_no_job_runs(engine: Engine) -> None:
    """Freed pages are reused while a job runs, and go back to the disk by VACUUM after that."""
    artifacts.put(engine, bytes(1_000_000), "library", "x")
    aged(engine, 10)
    submitted(engine)
    before = space.size(engine)
    job = claimed(engine)
    prune.prune(engine, 5)
    with reading(engine) as connection:
        stored = select(func.count()).select_from(tables.artifacts)
        assert connection.execute(stored).scalar_one() == 0
    if engine.dialect.name == "postgresql":
        assert space.reclaim(engine).how == "vacuum"
        return
    assert space.reclaim(engine) == space.Space("reused", before)
    queue.heartbeat(engine, job.id, job.attempt, lease_seconds=7200)  # the clock was set back
    done = space.reclaim(engine)
    assert done.how == "vacuum"
    assert done.bytes < before - 900_000
    with reading(engine) as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"


def test_reclaim_reports_a_database_that_vanished(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``reclaim`` reports a file that was deleted in between, and makes no new one."""
    if engine.dialect.name == "postgresql":
        pytest.skip("a server's database does not vanish under its connections")

    def vanished(_: Engine) -> bool:
        Path(str(engine.url.database)).unlink()
        return False

    monkeypatch.setattr(space, "_held", vanished)
    with pytest.raises(DatabaseUnavailable, match="unable to open"):
        space.reclaim(engine)


def test_reclaim_reports_a_lock_of_another_writer(url: str, engine: Engine) -> None:
    if engine.dialect.name == "postgresql":
        pytest.skip("VACUUM waits for no writer there")
    hurried = open_engine(url, busy_seconds=0.1)
    submitted(engine)
    with writing(engine), pytest.raises(DatabaseUnavailable, match="locked"):
        space.reclaim(hurried)
    hurried.dispose()
