"""Cancelling jobs that are queued, running, given back or ended."""

import pytest
from sqlalchemy import Engine
from storage_rows import claimed, everything, submitted

from db import queue
from db.sql.errors import JobEnded, LeaseLost, NotFound


def test_a_queued_job_is_cancelled_at_once(engine: Engine) -> None:
    job = queue.cancel(engine, submitted(engine).id)
    assert (job.state, job.attempt, job.cancel_requested) == ("cancelled", 0, True)
    assert job.finished_at is not None
    assert queue.claim(engine, "worker", ["cuda"]) is None


def test_heartbeat_tells_a_running_job_that_it_is_cancelled(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    assert queue.heartbeat(engine, job.id, job.attempt) is False
    asked = queue.cancel(engine, job.id)
    assert (asked.state, asked.cancel_requested) == ("running", True)
    assert queue.cancel(engine, job.id) == asked  # a second cancel is no error
    assert queue.heartbeat(engine, job.id, job.attempt) is True
    queue.finish(engine, job.id, job.attempt, "cancelled")
    assert queue.get(engine, job.id).state == "cancelled"


def test_a_cancelled_job_whose_worker_died_is_not_started_again(engine: Engine) -> None:
    submitted(engine, target="cuda")
    job = claimed(engine)
    queue.cancel(engine, job.id)
    queue.heartbeat(engine, job.id, job.attempt, lease_seconds=-1)
    assert queue.claim(engine, "worker", ["cpu"]) is None  # a claim of any kind ends the job
    ended = queue.get(engine, job.id)
    assert (ended.state, ended.error) == ("cancelled", None)
    assert ended.finished_at is not None


def test_a_job_whose_worker_died_is_cancelled_at_once(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine, seconds=-1)
    ended = queue.cancel(engine, job.id)
    assert (ended.state, ended.error, ended.eta_seconds) == ("cancelled", None, None)
    assert ended.finished_at is not None
    with pytest.raises(LeaseLost):  # so a worker that was only paused learns of it
        queue.heartbeat(engine, job.id, job.attempt)
    assert queue.claim(engine, "worker", ["cuda"]) is None


def test_a_cancelled_job_that_is_given_back_ends(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    queue.cancel(engine, job.id)
    queue.release(engine, job.id, job.attempt)
    ended = queue.get(engine, job.id)
    assert (ended.state, ended.released) == ("cancelled", 0)
    assert ended.finished_at is not None


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_an_ended_job_can_not_be_cancelled(engine: Engine, state: str) -> None:
    submitted(engine)
    job = claimed(engine)
    queue.finish(engine, job.id, job.attempt, state)  # type: ignore[arg-type]
    before = everything(engine)
    with pytest.raises(JobEnded, match=state) as refusal:
        queue.cancel(engine, job.id)
    assert refusal.value.state == state
    assert everything(engine) == before


@pytest.mark.parametrize("unknown", ["0" * 32, "nonsense", "", "\0", "\ud800", "A" * 32])
def test_unknown_job_raises_not_found(engine: Engine, unknown: str) -> None:
    submitted(engine)
    with pytest.raises(NotFound, match="no job"):
        queue.cancel(engine, unknown)
    with pytest.raises(NotFound, match="no job"):
        queue.get(engine, unknown)
