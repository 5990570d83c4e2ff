"""Predicted bests: they answer until a search of their workload has succeeded."""

from typing import Any

from sqlalchemy import Engine, func, select
from storage_rows import FILES, claimed, device, new_best, submitted

from db import queue
from db.contract.order import PREDICTED, PREDICTION
from db.results import best
from db.results.best_fields import best_fields
from db.sql.tables import best_artifacts
from db.sql.transaction import reading


def ended(engine: Engine, order: dict[str, Any], time_us: float, threads: int = 0) -> queue.Job:
    """Order a job on these terms, end it with a best, and return it."""
    submitted(engine, on_existing="retune", **order)
    job = claimed(engine)
    new = new_best(job, device(engine).id, time_us=time_us, threads=threads or None)
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(new, FILES)])
    return queue.get(engine, job.id)


SEARCHED = {"search": "xgb", "trials": 4}


def test_predicted_best_is_marked_as_predicted(engine: Engine) -> None:
    job = ended(engine, dict(PREDICTION), 1.5)
    [found] = best.lookup(engine, job.workload_key)
    assert (found.search, best_fields([found], None)["match"]) == (PREDICTED, "predicted")


def test_search_replaces_a_predicted_best_even_if_it_is_slower(engine: Engine) -> None:
    for threads in (1, 2):
        ended(engine, dict(PREDICTION), 1.5, threads)
    job = ended(engine, SEARCHED, 2.0, 2)
    found = best.bests_on_device(engine, job.workload_key, device(engine).id)
    assert [(each.job_id, each.time_us) for each in found] == [(job.id, 2.0)]
    assert best_fields(found, None)["match"] == "exact"
    with reading(engine) as connection:
        files = connection.execute(select(func.count()).select_from(best_artifacts)).scalar_one()
    assert files == len(FILES)


def test_prediction_does_not_replace_a_searched_best(engine: Engine) -> None:
    searched = ended(engine, SEARCHED, 2.0, 2)
    job = ended(engine, dict(PREDICTION), 1.5, 1)
    found = best.bests_on_device(engine, job.workload_key, device(engine).id)
    assert [each.job_id for each in found] == [searched.id]
    assert (job.state, job.best and job.best["time_us"]) == ("succeeded", 2.0)


def test_the_faster_of_two_predictions_stays(engine: Engine) -> None:
    first = ended(engine, dict(PREDICTION), 1.5)
    ended(engine, dict(PREDICTION), 1.6)
    [found] = best.lookup(engine, first.workload_key)
    assert found.job_id == first.id


def test_prediction_answers_orders_of_predictions_but_not_of_searches(engine: Engine) -> None:
    job = ended(engine, dict(PREDICTION), 1.5)
    order = queue.JobOrder(
        operator=job.operator, workload_key=job.workload_key, workload=job.workload, **PREDICTION
    )
    assert queue.submit(engine, order) == (job, False)
    again, created = queue.submit(engine, queue.JobOrder(**vars(order) | SEARCHED))
    assert created
    assert again.id != job.id
