"""Trials: their numbers, duplicates, pages and what is stored of them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from storage_rows import claimed, device, everything, new_trial, submitted

from db import queue
from db.queue import history
from db.results import trials
from db.sql.errors import BadCursor, DuplicateTrial, NotFound


@pytest.fixture
def job(engine: Engine) -> queue.Job:
    submitted(engine)
    return claimed(engine)


@pytest.fixture
def gpu(engine: Engine) -> int:
    return device(engine).id


def test_trials_are_kept_as_they_were_given(engine: Engine, job: queue.Job, gpu: int) -> None:
    good = new_trial(gpu, 64)
    bad = new_trial(gpu, 128, status="build_error", time_us=None, timing=None, error="no µ\nhere")
    stored = trials.add(engine, job.id, job.attempt, [good, bad])
    assert [(trial.number, trial.job_id) for trial in stored] == [(1, job.id), (2, job.id)]
    for given, kept in zip([good, bad], stored, strict=True):
        assert asdict(kept).items() >= asdict(given).items()
        assert list(kept.config) == list(given.config)
        assert kept.created_at.tzname() == "UTC"
    assert trials.list_trials(engine, job.id).items == stored
    assert trials.add(engine, job.id, job.attempt, []) == []


def test_trial_numbers_continue_in_the_next_attempt(
    engine: Engine, job: queue.Job, gpu: int
) -> None:
    trials.add(engine, job.id, 1, [new_trial(gpu, 1), new_trial(gpu, 2)])
    queue.heartbeat(engine, job.id, 1, lease_seconds=-1)
    again = claimed(engine)
    trials.add(engine, again.id, again.attempt, [new_trial(gpu, 3)])
    assert [trial.number for trial in trials.list_trials(engine, job.id).items] == [1, 2, 3]


def test_duplicate_trial_is_refused_with_its_whole_batch(
    engine: Engine, job: queue.Job, gpu: int
) -> None:
    trials.add(engine, job.id, job.attempt, [new_trial(gpu, 64)])
    same = new_trial(gpu, 0, config={"threads": 64, "template": "direct"}, status="run_error")
    before = everything(engine)
    with pytest.raises(DuplicateTrial, match="nothing was written"):
        trials.add(engine, job.id, job.attempt, [new_trial(gpu, 1), same])
    with pytest.raises(DuplicateTrial):
        trials.add(engine, job.id, job.attempt, [new_trial(gpu, 2), new_trial(gpu, 2)])
    assert everything(engine) == before


def test_job_refuses_a_trial_that_another_job_of_its_workload_stored(
    engine: Engine, job: queue.Job, gpu: int
) -> None:
    """A configuration is stored once for each workload and device, whichever job measured it."""
    first = trials.add(engine, job.id, job.attempt, [new_trial(gpu, 64)])
    queue.finish(engine, job.id, job.attempt, "succeeded")
    submitted(engine)
    other = claimed(engine)
    with pytest.raises(DuplicateTrial):
        trials.add(engine, other.id, other.attempt, [new_trial(gpu, 64)])
    second = trials.add(engine, other.id, other.attempt, [new_trial(gpu, 65)])
    known = trials.measured_trials(engine, job.workload_key, gpu, "0.27.0")
    assert known == first + second
    assert [trial.job_id for trial in known] == [job.id, other.id]


@pytest.mark.parametrize("status", ["machine_error", "build_timeout", "run_timeout"])
def test_transient_failure_may_be_tried_again_by_another_job(
    engine: Engine, job: queue.Job, gpu: int, status: str
) -> None:
    failed = new_trial(gpu, 64, status=status, time_us=None, timing=None, error="killed")
    first = trials.add(engine, job.id, job.attempt, [failed])
    with pytest.raises(DuplicateTrial):
        trials.add(engine, job.id, job.attempt, [failed])
    queue.finish(engine, job.id, job.attempt, "failed")
    submitted(engine)
    other = claimed(engine)
    again = trials.add(engine, other.id, other.attempt, [failed, new_trial(gpu, 65)])
    queue.finish(engine, other.id, other.attempt, "failed")
    submitted(engine)
    last = claimed(engine)
    worked = trials.add(engine, last.id, last.attempt, [new_trial(gpu, 64)])
    known = trials.measured_trials(engine, job.workload_key, gpu, "0.27.0")
    assert known == first + again + worked
    queue.finish(engine, last.id, last.attempt, "failed")
    submitted(engine)
    late = claimed(engine)
    with pytest.raises(DuplicateTrial):
        trials.add(engine, late.id, late.attempt, [failed])


def test_machine_error_is_not_used_for_warm_starts(
    engine: Engine, job: queue.Job, gpu: int
) -> None:
    starved = new_trial(gpu, 64, status="machine_error", time_us=None, timing=None)
    trials.add(engine, job.id, job.attempt, [starved, new_trial(gpu, 65)])
    learnt = history.latest_trials(engine, job.workload_key, gpu, "0.27.0", 10)
    assert [past.config["threads"] for past in learnt] == [65]


def test_another_device_template_version_or_tvm_is_another_trial(
    engine: Engine, job: queue.Job, gpu: int
) -> None:
    other = device(engine, name="Other GPU").id
    stored = trials.add(
        engine,
        job.id,
        job.attempt,
        [
            new_trial(gpu, 64),
            new_trial(other, 64),
            new_trial(gpu, 64, template_version=2),
            new_trial(gpu, 64, template="other"),
            new_trial(gpu, 64, tvm_version="0.28.0"),
        ],
    )
    assert len(stored) == 5
    known = trials.measured_trials(engine, job.workload_key, gpu, "0.27.0")
    assert known == [stored[0], stored[2], stored[3]]
    assert trials.measured_trials(engine, "another workload", gpu, "0.27.0") == []


def test_two_jobs_of_one_workload_store_a_trial_once(engine: Engine, gpu: int) -> None:
    held = []
    for search in ("xgb", "random"):
        submitted(engine, search=search)
        held.append(claimed(engine))

    def add(job: queue.Job) -> int:
        stored = 0
        for knob in range(20):
            try:
                stored += len(trials.add(engine, job.id, job.attempt, [new_trial(gpu, knob)]))
            except DuplicateTrial:
                continue
        return stored

    with ThreadPoolExecutor(2) as threads:
        assert sum(threads.map(add, held)) == 20
    known = trials.measured_trials(engine, held[0].workload_key, gpu, "0.27.0")
    assert sorted(trial.config["threads"] for trial in known) == list(range(20))


def test_nan_and_infinity_are_stored_as_null(engine: Engine, job: queue.Job, gpu: int) -> None:
    odd = new_trial(
        gpu,
        1,
        status="wrong_answer",
        max_error=float("nan"),
        time_us=float("inf"),
        timing={"warm": {"samples": [1.0, float("-inf")], "median": float("nan")}},
        error="\0\ud800",
    )
    kept = trials.add(engine, job.id, job.attempt, [odd])[0]
    assert (kept.max_error, kept.time_us) == (None, None)
    assert kept.timing == {"warm": {"samples": [1.0, None], "median": None}}
    assert kept.error == "\ufffd?"


def test_trial_on_an_unknown_device_raises_integrity_error(
    engine: Engine, job: queue.Job, gpu: int
) -> None:
    before = everything(engine)
    with pytest.raises(IntegrityError, match=r"(?i)foreign key"):
        trials.add(engine, job.id, job.attempt, [new_trial(gpu + 1, 1)])
    assert everything(engine) == before


def test_pages_of_a_growing_trial_log_skip_and_repeat_nothing(
    engine: Engine, job: queue.Job, gpu: int
) -> None:
    trials.add(engine, job.id, job.attempt, [new_trial(gpu, knob) for knob in range(5)])
    seen, cursor = [], None
    for more in range(5, 8):
        page = trials.list_trials(engine, job.id, limit=2, cursor=cursor)
        seen += [trial.number for trial in page.items]
        cursor = page.next_cursor
        trials.add(engine, job.id, job.attempt, [new_trial(gpu, more)])
    assert seen == [1, 2, 3, 4, 5, 6]
    last = trials.list_trials(engine, job.id, limit=2, cursor=cursor)
    assert ([trial.number for trial in last.items], last.next_cursor) == ([7, 8], None)


def test_trial_log_is_filtered_by_status(engine: Engine, job: queue.Job, gpu: int) -> None:
    kinds = ["ok", "run_error", "ok", "ok"]
    new = [new_trial(gpu, knob, status=status) for knob, status in enumerate(kinds)]
    trials.add(engine, job.id, job.attempt, new)
    first = trials.list_trials(engine, job.id, "ok", limit=2)
    assert [trial.number for trial in first.items] == [1, 3]
    rest = trials.list_trials(engine, job.id, "ok", limit=2, cursor=first.next_cursor)
    assert ([trial.number for trial in rest.items], rest.next_cursor) == ([4], None)
    assert trials.list_trials(engine, job.id, "\0").items == []


def test_trial_log_refuses_an_unknown_job_and_an_invalid_cursor(
    engine: Engine, job: queue.Job
) -> None:
    with pytest.raises(NotFound):
        trials.list_trials(engine, "0" * 32)
    with pytest.raises(BadCursor):
        trials.list_trials(engine, job.id, cursor="x")
