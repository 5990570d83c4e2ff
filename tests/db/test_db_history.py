"""Earlier trials from which a search starts warm."""

import pytest
from sqlalchemy import Engine
from storage_rows import claimed, device, new_trial, submitted
from test_db_plans import plans

from db import queue
from db.queue import history
from db.results import trials
from db.sql.errors import LeaseLost


def measured(engine: Engine, gpu: int, length: int, knobs: range, **changes: object) -> queue.Job:
    """Return an ended job of this length with a trial for each knob."""
    submitted(engine, length)
    job = claimed(engine)
    stored = trials.add(engine, job.id, job.attempt, [new_trial(gpu, k, **changes) for k in knobs])
    ok = sum(trial.status == "ok" for trial in stored)
    queue.progress(
        engine,
        job.id,
        job.attempt,
        measured=len(stored),
        ok=ok,
        failed=len(stored) - ok,
        best=None,
        eta_seconds=None,
        device_id=gpu,
    )
    queue.finish(engine, job.id, job.attempt, "cancelled")
    return queue.get(engine, job.id)


def test_tried_workloads_need_a_trial_that_worked_on_the_device(engine: Engine) -> None:
    gpu, other = device(engine).id, device(engine, name="Other GPU").id
    first = measured(engine, gpu, 64, range(2))
    measured(engine, other, 65, range(2))
    measured(engine, gpu, 66, range(2), status="run_error", time_us=None)
    last = measured(engine, gpu, 67, range(1))
    submitted(engine, 68)
    found = history.tried_workloads(engine, "conv1d", gpu)
    assert found == [first.workload_key, last.workload_key]
    assert history.tried_workloads(engine, "depthwise_conv2d", gpu) == []


def test_the_latest_trials_come_newest_first(engine: Engine) -> None:
    gpu = device(engine).id
    job = measured(engine, gpu, 64, range(5))
    key = job.workload_key
    found = history.latest_trials(engine, key, gpu, "0.27.0", 3)
    assert [trial.config["threads"] for trial in found] == [4, 3, 2]
    assert {(trial.template, trial.template_version, trial.time_us) for trial in found} == {
        ("direct", 1, 1.5)
    }
    assert len({trial.job_seq for trial in found}) == 1
    assert history.latest_trials(engine, key, gpu, "0.28.0", 3) == []
    assert history.latest_trials(engine, "another", gpu, "0.27.0", 3) == []


def test_trials_of_one_workload_are_found_by_index(engine: Engine) -> None:
    gpu = device(engine).id
    job = measured(engine, gpu, 64, range(5))
    [plan] = plans(
        engine,
        lambda: history.latest_trials(engine, job.workload_key, gpu, "0.27.0", 3),
        "DESC",
    )
    if engine.dialect.name == "sqlite":  # PostgreSQL scans so small a table
        assert "SEARCH trials USING INDEX" in plan, plan


def test_job_stores_the_counts_of_its_warm_start(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    assert (job.warm_start, job.warmed) == (True, None)
    history.note_warm_start(engine, job.id, job.attempt, from_jobs=2, from_trials=9)
    assert queue.get(engine, job.id).warmed == {"jobs": 2, "trials": 9}
    with pytest.raises(LeaseLost):
        history.note_warm_start(engine, job.id, 2, from_jobs=0, from_trials=0)
