"""Cancelling a model cancels the jobs that exist for this model alone."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from model_rows import jobs_of, model_order, ordered, tuned_next
from sqlalchemy import Engine
from storage_rows import claimed, everything, order, submitted

from db import models, queue
from db.sql.errors import ModelEnded


def states(engine: Engine, model: models.Model) -> list[str]:
    return [job.state for job in jobs_of(engine, model)]


def test_cancelling_a_model_cancels_its_own_jobs(engine: Engine) -> None:
    model = ordered(engine, 10, 11)
    cancelled = models.cancel(engine, model.id)
    assert cancelled.state == "cancelled"
    assert states(engine, model) == ["cancelled", "cancelled"]
    assert cancelled.finished_at is not None
    assert cancelled.finished_at >= cancelled.created_at
    before = everything(engine)
    with pytest.raises(ModelEnded, match=f"model {model.id} was already cancelled"):
        models.cancel(engine, model.id)
    assert everything(engine) == before


def test_cancelling_a_model_tells_its_running_job_to_stop(engine: Engine) -> None:
    model = ordered(engine, 10, 11)
    job = claimed(engine)
    stopping = models.cancel(engine, model.id)
    assert (stopping.state, stopping.finished_at, stopping.eta_seconds) == ("running", None, None)
    assert queue.heartbeat(engine, job.id, job.attempt) is True
    assert models.cancel(engine, model.id).state == "running"  # a second cancel is no error
    queue.finish(engine, job.id, job.attempt, "cancelled")
    ended = models.get(engine, model.id)
    assert (ended.state, states(engine, model)) == ("cancelled", ["cancelled"] * 2)
    assert ended.finished_at == queue.get(engine, job.id).finished_at


def test_cancelling_a_model_leaves_a_job_that_existed_before_it(engine: Engine) -> None:
    job = submitted(engine, 10)
    model = ordered(engine, 10, 11)
    assert models.cancel(engine, model.id).state == "cancelled"
    assert states(engine, model) == ["queued", "cancelled"]
    assert queue.get(engine, job.id).cancel_requested is False


def test_cancelling_a_model_leaves_a_job_that_was_ordered_since(engine: Engine) -> None:
    model = ordered(engine, 10, 11)
    job, created = queue.submit(engine, order(11))
    assert not created
    models.cancel(engine, model.id)
    assert states(engine, model) == ["cancelled", "queued"]
    assert queue.get(engine, job.id).state == "queued"


def test_shared_job_is_cancelled_with_its_last_model(engine: Engine) -> None:
    first, second = ordered(engine, 10, 11), ordered(engine, 11, 12, name="second")
    models.cancel(engine, first.id)
    assert states(engine, first) == ["cancelled", "queued"]
    assert models.get(engine, first.id).state == "cancelled"  # though its shared job goes on
    assert models.get(engine, second.id).state == "queued"
    models.cancel(engine, second.id)
    assert states(engine, second) == ["cancelled", "cancelled"]


def test_cancelling_leaves_ended_jobs_and_refuses_an_ended_model(engine: Engine) -> None:
    model = ordered(engine, 10, 11)
    tuned_next(engine)
    models.cancel(engine, model.id)
    assert states(engine, model) == ["succeeded", "cancelled"]
    whole = ordered(engine, 20)
    tuned_next(engine)
    with pytest.raises(ModelEnded, match="has already succeeded"):
        models.cancel(engine, whole.id)


def test_new_model_does_not_join_a_job_that_is_stopping(engine: Engine) -> None:
    model = ordered(engine, 10)
    claimed(engine)
    models.cancel(engine, model.id)
    again = ordered(engine, 10, name="again")
    assert jobs_of(engine, again)[0].id != jobs_of(engine, model)[0].id
    assert states(engine, again) == ["queued"]


def test_order_that_joins_during_a_cancel_keeps_its_jobs(engine: Engine) -> None:
    for round_ in range(6):
        lengths = range(100 * round_ + 10, 100 * round_ + 14)
        model = ordered(engine, *lengths)
        with ThreadPoolExecutor(3) as threads:
            cancelling = threads.submit(models.cancel, engine, model.id)
            joining = threads.submit(models.submit, engine, model_order(*lengths, name="joins"))
            alone = threads.submit(queue.submit, engine, order(lengths[-1]))
            assert cancelling.result().state == "cancelled"
            assert states(engine, joining.result()[0]) == ["queued"] * 4
            assert queue.get(engine, alone.result()[0].id).state == "queued"


def test_job_of_a_model_may_be_cancelled_by_itself(engine: Engine) -> None:
    model = ordered(engine, 10, 11)
    queue.cancel(engine, jobs_of(engine, model)[0].id)
    assert models.get(engine, model.id).state == "running"
    tuned_next(engine)
    ended = models.get(engine, model.id)
    assert (ended.state, states(engine, model)) == ("cancelled", ["cancelled", "succeeded"])
