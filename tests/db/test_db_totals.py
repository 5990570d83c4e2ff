"""The totals behind the metrics: jobs, trials, seconds, queue and workers."""

from typing import Any

import pytest
from sqlalchemy import Engine, update
from storage_rows import claimed, device, new_trial, submitted

from db import queue
from db.fleet import workers
from db.results import trials
from db.results.totals import Totals, totals
from db.sql import tables
from db.sql.columns import now
from db.sql.engine import writing
from db.sql.errors import DuplicateTrial
from db.sql.tables import jobs


def test_totals_of_an_empty_database_are_zero(engine: Engine) -> None:
    assert totals(engine) == Totals({}, 0.0, {}, {}, {})


def test_totals_count_jobs_trials_and_seconds(engine: Engine) -> None:
    gpu = device(engine).id
    submitted(engine)
    job = claimed(engine)
    slow = {"schedule": 1.0, "build": 2.0, "check": 4.0, "run": 8.0}
    failed = {"status": "build_error", "time_us": None, "seconds": {"schedule": 0.5}}
    trials.add(engine, job.id, 1, [new_trial(gpu, 1, seconds=slow), new_trial(gpu, 2, **failed)])
    trials.add(engine, job.id, 1, [new_trial(gpu, 3, seconds=slow)])
    with pytest.raises(DuplicateTrial):
        trials.add(engine, job.id, 1, [new_trial(gpu, 3)])
    trials.add(engine, job.id, 1, [])
    submitted(engine, length=65)
    other = claimed(engine)
    trials.add(engine, other.id, 1, [new_trial(gpu, 1, seconds=slow)])
    queue.finish(engine, other.id, 1, "failed")
    known = totals(engine)
    assert known.jobs == {"running": 1, "failed": 1}
    assert known.trials == {"ok": 3, "build_error": 1}
    spent = {phase: known.seconds["ok", phase] for phase in slow}
    assert spent == {phase: 3 * seconds for phase, seconds in slow.items()}
    assert known.seconds["build_error", "schedule"] == 0.5
    assert known.seconds["build_error", "run"] == 0


def test_totals_report_the_age_of_the_oldest_queued_job(engine: Engine) -> None:
    submitted(engine)
    running = claimed(engine)
    waiting = submitted(engine, length=65)
    submitted(engine, length=66)
    with writing(engine) as connection:
        for job, ago in ((running, 500), (waiting, 100)):
            older = update(jobs).where(jobs.c.id == job.id)
            connection.execute(older.values(created_at=jobs.c.created_at - ago))
    assert 100 <= totals(engine).queued_seconds < 160


def test_totals_count_live_workers_by_kind_of_device(engine: Engine) -> None:
    gpu = device(engine).id
    said: dict[str, Any] = {"host": "here", "pid": 7, "version": "0.1.0", "device_id": gpu}
    for name, job in (("a", "0" * 32), ("b", None), ("c", None), ("silent", None)):
        workers.beat(engine, name, job_id=job, **said)
    with writing(engine) as connection:
        ago = now() - 2 * workers.ALIVE_SECONDS
        silent = tables.workers.c.name == "silent"
        connection.execute(update(tables.workers).where(silent).values(seen_at=ago))
    assert totals(engine).workers == {("cuda", True): 1, ("cuda", False): 2}
