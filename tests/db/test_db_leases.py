"""Leases of jobs: who may write, how they are renewed, lost, given back and charged."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine
from storage_rows import FILES, claimed, device, everything, new_best, new_trial, submitted

from db import queue
from db.queue import lease
from db.results import best, trials
from db.sql.errors import LeaseLost
from db.sql.transaction import writing

Write = Callable[[Engine, str, int, int], object]

WRITES: dict[str, Write] = {
    "heartbeat": lambda e, job, attempt, _: queue.heartbeat(e, job, attempt),
    "progress": lambda e, job, attempt, dev: queue.progress(
        e, job, attempt, measured=9, ok=9, failed=0, best=None, eta_seconds=1, device_id=dev
    ),
    "trials": lambda e, job, attempt, dev: trials.add(e, job, attempt, [new_trial(dev, 1)]),
    "finish_with_bests": lambda e, job, attempt, dev: best.finish_with_bests(
        e, job, attempt, [best.BestWithFiles(new_best(queue.get(e, job), dev), FILES)]
    ),
    "finish": lambda e, job, attempt, _: queue.finish(e, job, attempt, "succeeded"),
    "release": lambda e, job, attempt, _: queue.release(e, job, attempt),
}


@pytest.fixture(params=WRITES)
def write(request: pytest.FixtureRequest) -> Write:
    """One of the writes that only the holder of a lease may do."""
    return WRITES[request.param]


def refused(engine: Engine, write: Write, job: queue.Job, device_id: int) -> None:
    """Assert that the write raises LeaseLost and changes nothing."""
    before = everything(engine)
    with pytest.raises(LeaseLost, match=f"attempt {job.attempt} .*{job.id}"):
        write(engine, job.id, job.attempt, device_id)
    assert everything(engine) == before


def test_a_worker_whose_lease_was_taken_can_write_nothing(engine: Engine, write: Write) -> None:
    submitted(engine)
    stale = claimed(engine, "first", seconds=-1)
    current = claimed(engine, "second")
    assert (current.id, current.attempt, current.worker) == (stale.id, 2, "second")
    gpu = device(engine).id
    refused(engine, write, stale, gpu)
    write(engine, current.id, current.attempt, gpu)  # the holder of the lease may write it


def test_lease_from_before_the_clock_was_set_back_has_run_out(engine: Engine) -> None:
    """Otherwise a dead holder would keep the job until the clock is where it was."""
    submitted(engine)
    held = claimed(engine, seconds=1.5 * lease.LEASE_SECONDS)
    assert queue.claim(engine, "second", ["cuda"]) is None  # clocks are also adjusted a little
    queue.heartbeat(engine, held.id, held.attempt, lease_seconds=7200)
    assert claimed(engine, "third").attempt == 2


def test_a_worker_can_write_nothing_once_its_job_ended(engine: Engine, write: Write) -> None:
    submitted(engine)
    job = claimed(engine)
    queue.finish(engine, job.id, job.attempt, "failed", "no template applies")
    refused(engine, write, job, device(engine).id)


def test_a_worker_can_write_nothing_once_it_gave_its_job_back(engine: Engine, write: Write) -> None:
    submitted(engine)
    job = claimed(engine)
    queue.release(engine, job.id, job.attempt)
    refused(engine, write, job, device(engine).id)


def test_a_late_heartbeat_renews_a_lease_nobody_took(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine, seconds=-1)
    assert queue.heartbeat(engine, job.id, job.attempt) is False
    assert queue.claim(engine, "other", ["cuda"]) is None


def test_a_heartbeat_sets_when_the_lease_ends(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    queue.heartbeat(engine, job.id, job.attempt, lease_seconds=-1)
    assert claimed(engine, "other").attempt == 2


def test_a_job_fails_after_three_attempts(engine: Engine) -> None:
    job = submitted(engine)
    for attempt in (1, 2, 3):
        assert claimed(engine, f"worker {attempt}", seconds=-1).attempt == attempt
    assert queue.claim(engine, "worker 4", ["cuda"]) is None
    ended = queue.get(engine, job.id)
    assert (ended.state, ended.attempt) == ("failed", 3)
    assert ended.error is not None
    assert "after 3 attempts" in ended.error
    assert "worker 3" in ended.error
    assert ended.finished_at is not None


def test_an_attempt_given_back_is_not_charged(engine: Engine) -> None:
    job = submitted(engine)
    for _ in range(5):
        held = claimed(engine)
        queue.release(engine, held.id, held.attempt)
    waiting = queue.get(engine, job.id)
    assert (waiting.state, waiting.attempt, waiting.released) == ("queued", 5, 5)
    assert waiting.worker is None
    for _ in range(3):
        claimed(engine, seconds=-1)
    assert queue.claim(engine, "worker", ["cuda"]) is None
    assert queue.get(engine, job.id).state == "failed"


def test_attempt_lost_while_the_database_was_silent_is_not_charged(engine: Engine) -> None:
    job = submitted(engine)
    for _ in range(4):  # nobody else has claimed it, so the job is given back
        held = claimed(engine, seconds=-1)
        queue.excuse(engine, held.id, held.attempt)
    lost = claimed(engine, "first", seconds=-1)
    current = claimed(engine, "second", seconds=-1)
    queue.excuse(engine, lost.id, lost.attempt)  # another worker has the job by now
    now = queue.get(engine, job.id)
    assert (now.state, now.worker, now.attempt, now.released) == ("running", "second", 6, 5)
    queue.heartbeat(engine, current.id, current.attempt)


def test_excuse_does_not_change_a_job_that_has_ended(engine: Engine) -> None:
    submitted(engine)
    lost = claimed(engine, "first", seconds=-1)
    current = claimed(engine, "second")
    queue.finish(engine, current.id, current.attempt, "succeeded")
    before = everything(engine)
    queue.excuse(engine, lost.id, lost.attempt)
    queue.excuse(engine, current.id, current.attempt)
    assert everything(engine) == before


def test_claim_with_spare_expired_takes_no_expired_job(engine: Engine) -> None:
    """Workers do so after the database was silent, because none could renew its lease."""
    submitted(engine, 10)
    held = claimed(engine, seconds=-1)
    assert queue.claim(engine, "other", ["cuda"], spare_expired=True) is None
    waiting = submitted(engine, 11)
    taken = queue.claim(engine, "other", ["cuda"], spare_expired=True)
    assert taken is not None
    assert taken.id == waiting.id
    queue.heartbeat(engine, held.id, held.attempt)
    assert queue.claim(engine, "other", ["cuda"]) is None


@pytest.mark.parametrize("dialect", ["sqlite"])
def test_claim_that_waited_for_the_lock_takes_no_expired_job(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's lock also kept the holder of the expired job from renewing its lease."""
    monkeypatch.setattr(lease, "SILENT_SECONDS", 0.2)
    submitted(engine)
    held = claimed(engine, seconds=-1)
    with ThreadPoolExecutor(1) as threads:
        with writing(engine):
            taken = threads.submit(queue.claim, engine, "other", ["cuda"])
            time.sleep(0.5)
        assert taken.result() is None
    queue.heartbeat(engine, held.id, held.attempt)


def test_oldest_job_is_claimed_first_even_if_it_was_claimed_before(engine: Engine) -> None:
    first, second = submitted(engine, 10), submitted(engine, 11)
    claimed(engine, seconds=-1)
    assert claimed(engine).id == first.id
    assert claimed(engine).id == second.id
    assert queue.claim(engine, "worker", ["cuda"]) is None


def test_a_worker_gets_only_jobs_for_its_kind_of_device(engine: Engine) -> None:
    submitted(engine, target="cuda")
    assert queue.claim(engine, "worker", ["cpu"]) is None
    anywhere = submitted(engine, target="auto")
    cpu = submitted(engine, target="cpu")
    taken = [queue.claim(engine, "worker", ["cpu"]) for _ in range(3)]
    assert [job and job.id for job in taken] == [anywhere.id, cpu.id, None]


def test_claimed_job_has_its_terms_its_worker_and_its_first_start(engine: Engine) -> None:
    job = submitted(engine, seed=7, budget_seconds=2.5)
    first = claimed(engine, "one", seconds=-1)
    assert (first.id, first.state, first.worker) == (job.id, "running", "one")
    assert (first.seed, first.budget_seconds) == (7, 2.5)
    assert first.started_at is not None
    assert first.started_at >= job.created_at
    assert first.started_at.tzname() == "UTC"
    assert claimed(engine, "two").started_at == first.started_at


def test_progress_is_kept_for_the_next_attempt(engine: Engine) -> None:
    submitted(engine)
    gpu = device(engine).id
    job = claimed(engine, seconds=-1)
    shown = {"config": {"threads": 64}, "time_us": 1.5, "gflops": 2.0}
    figures = {"measured": 3, "ok": 2, "failed": 1, "best": shown}
    queue.progress(engine, job.id, job.attempt, **figures, eta_seconds=9.5, device_id=gpu)
    assert queue.get(engine, job.id).eta_seconds == 9.5
    again = claimed(engine)
    assert (again.trials_measured, again.trials_ok, again.trials_failed) == (3, 2, 1)
    assert (again.best, again.device_id, again.eta_seconds) == (shown, gpu, None)
    queue.progress(engine, job.id, 2, **figures, eta_seconds=float("inf"), device_id=None)
    later = queue.get(engine, job.id)
    assert (later.device_id, later.eta_seconds) == (gpu, None)


def test_finish_stores_a_reason_with_any_characters(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    queue.finish(engine, job.id, job.attempt, "failed", "NUL \0, half a pair \ud800, µ")
    ended = queue.get(engine, job.id)
    assert (ended.state, ended.error) == ("failed", "NUL \ufffd, half a pair ?, µ")
    assert ended.finished_at is not None
    assert ended.started_at is not None
    assert ended.finished_at >= ended.started_at
