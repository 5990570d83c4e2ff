"""Orders that are restricted to some templates have bests of their own."""

from itertools import count
from typing import Any

import pytest
from sqlalchemy import Engine
from storage_rows import claimed, device, new_best, new_trial, order, submitted

from db import queue
from db.results import best, trials

KEY = order().workload_key
DIRECT = ("direct",)
_knob = count()


def finished(engine: Engine, template: str, time_us: float, **ordered: Any) -> queue.Job:
    """Return a succeeded job with four trials of this template, the last of which is its best."""
    submitted(engine, **ordered)
    job, on = claimed(engine), device(engine)
    for knob in (next(_knob) for _ in range(4)):
        made = new_trial(on.id, knob, template=template, config={"template": template, "k": knob})
        trials.add(engine, job.id, job.attempt, [made])
    found = new_best(job, on.id, template=template, time_us=time_us, config=made.config)
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(found, [])])
    return queue.get(engine, job.id)


def test_restricted_best_is_kept_beside_the_unrestricted_one(engine: Engine) -> None:
    whole = finished(engine, "fft", 10.0)
    alone = finished(engine, "direct", 20.0, templates=DIRECT)
    assert [found.job_id for found in best.lookup(engine, KEY)] == [whole.id]
    assert [found.job_id for found in best.lookup(engine, KEY, templates=DIRECT)] == [alone.id]
    assert best.lookup(engine, KEY, templates=["other"]) == []
    [found] = best.bests_of_operator(engine, "conv1d", templates=DIRECT)
    assert found.job_id == alone.id
    assert [each.job_id for each in best.bests_of_operator(engine, "conv1d")] == [whole.id]


def test_faster_restricted_best_answers_unrestricted_lookups(engine: Engine) -> None:
    finished(engine, "direct", 20.0)
    alone = finished(engine, "direct", 10.0, templates=DIRECT, trials=500)
    assert [found.job_id for found in best.lookup(engine, KEY)] == [alone.id]


def test_a_restricted_order_is_not_answered_by_another_template(engine: Engine) -> None:
    finished(engine, "fft", 10.0)
    job, created = queue.submit(engine, order(on_existing="reuse", templates=DIRECT))
    assert (created, job.templates) == (True, DIRECT)


def test_restricted_order_is_answered_by_enough_trials_of_its_templates(engine: Engine) -> None:
    whole = finished(engine, "direct", 10.0)
    asked = order(on_existing="reuse", templates=DIRECT)
    job, created = queue.submit(engine, asked)
    assert (created, job.id) == (False, whole.id)


def test_trials_of_other_templates_do_not_count_for_an_order(engine: Engine) -> None:
    finished(engine, "fft", 10.0)
    finished(engine, "direct", 20.0, templates=DIRECT)
    _, created = queue.submit(engine, order(on_existing="reuse", templates=DIRECT, trials=8))
    assert created


@pytest.mark.parametrize("trials_ordered", [2, 4])
def test_unrestricted_order_is_not_answered_by_a_restricted_search(
    engine: Engine, trials_ordered: int
) -> None:
    finished(engine, "direct", 10.0, templates=DIRECT)
    _, created = queue.submit(engine, order(on_existing="reuse", trials=trials_ordered))
    assert created


def test_an_equal_restricted_order_is_answered_by_the_search_that_ended_early(
    engine: Engine,
) -> None:
    done = finished(engine, "direct", 10.0, templates=DIRECT, trials=500, patience=4)
    asked = order(on_existing="reuse", templates=DIRECT, trials=500, patience=4)
    job, created = queue.submit(engine, asked)
    assert (created, job.id) == (False, done.id)
