"""Orders: which one makes a new job, and which is answered by a job that exists."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from sqlalchemy import Engine, select, update
from storage_rows import claimed, device, everything, new_best, new_trial, order, submitted

from db import queue
from db.access.quota import Orderer, orders_of
from db.queue import idempotency
from db.queue.idempotency import KEPT_SECONDS
from db.records import listed
from db.results import best, trials
from db.sql.columns import canonical
from db.sql.errors import IdempotencyConflict, TooManyKeys
from db.sql.tables import idempotency_keys, jobs
from db.sql.transaction import reading, writing


def test_a_new_job_is_queued_as_ordered(engine: Engine) -> None:
    asked = order(
        on_existing="reuse",
        budget_seconds=60.0,
        seed=2**62,
        patience=8,
        warm_start=False,
        templates=("direct", "fft"),
    )
    job, created = queue.submit(engine, asked)
    assert created
    assert (job.state, job.attempt, job.trials_measured) == ("queued", 0, 0)
    assert (job.best, job.error, job.started_at, job.finished_at) == (None, None, None, None)
    assert job.created_at.tzname() == "UTC"
    for field in fields(asked):
        assert getattr(job, field.name) == getattr(asked, field.name), field.name
    assert queue.get(engine, job.id) == job


def test_equal_order_joins_a_queued_or_running_job(engine: Engine) -> None:
    """An equal order returns the job that is queued or running, but not one that ended."""
    job = submitted(engine)
    assert queue.submit(engine, order()) == (job, False)
    running = claimed(engine)
    assert queue.submit(engine, order()) == (running, False)
    queue.finish(engine, job.id, running.attempt, "succeeded")
    again, created = queue.submit(engine, order())
    assert created
    assert again.id != job.id


@pytest.mark.parametrize(
    "change",
    [
        {"workload_key": '{"operator":"conv1d","M":65}', "workload": {"M": 65}},
        {"target": "cpu"},
        {"trials": 5},
        {"search": "random"},
        {"on_existing": "reuse"},
        {"budget_seconds": 10.0},
        {"seed": 0},
        {"patience": 8},
        {"warm_start": False},
        {"templates": ("direct",)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_order_that_differs_in_any_term_makes_another_job(
    engine: Engine, change: dict[str, Any]
) -> None:
    job = submitted(engine)
    other, created = queue.submit(engine, replace(order(), **change))
    assert created
    assert other.id != job.id


def test_an_order_does_not_join_a_job_that_is_being_cancelled(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    queue.cancel(engine, job.id)
    other, created = queue.submit(engine, order())
    assert created
    assert other.id != job.id
    queue.release(engine, job.id, job.attempt)
    assert queue.submit(engine, order()) == (other, False)


def test_idempotency_key_returns_its_job_even_after_it_ended(engine: Engine) -> None:
    job, created = queue.submit(engine, order(), "key 1")
    assert created
    cancelled = queue.cancel(engine, job.id)
    assert queue.submit(engine, order(), "key 1") == (cancelled, False)
    assert queue.submit(engine, order(), "key 2")[1]


def test_idempotency_key_of_an_earlier_release_still_finds_its_job(engine: Engine) -> None:
    """Fields that orders got later are left out of ``order_key`` if they have their default."""
    job, _ = queue.submit(engine, order(), "key 1")
    added = ("patience", "warm_start", "templates", "label", "baselines", "for_device")
    old = {k: v for k, v in asdict(order()).items() if k not in added}
    digest = hashlib.sha256(canonical(old).encode()).hexdigest()
    with reading(engine) as connection:
        assert connection.execute(select(idempotency_keys.c.order_key)).scalar() == digest
    assert queue.submit(engine, order(), "key 1") == (job, False)


def test_an_idempotency_key_with_another_order_is_refused(engine: Engine) -> None:
    queue.submit(engine, order(), "key 1")
    before = everything(engine)
    with pytest.raises(IdempotencyConflict, match="key 1"):
        queue.submit(engine, order(trials=5), "key 1")
    assert everything(engine) == before


def test_idempotency_key_belongs_to_its_orderer(engine: Engine) -> None:
    mine, theirs = (orders_of(engine, Orderer(f"key {n}", None)) for n in (1, 2))
    job, _ = queue.submit(mine, order(), "order 1")
    other, created = queue.submit(theirs, order(trials=5), "order 1")
    assert created
    assert queue.submit(mine, order(), "order 1") == (job, False)
    assert queue.submit(theirs, order(trials=5), "order 1") == (other, False)


def test_idempotency_key_is_forgotten_after_a_day(engine: Engine) -> None:
    def age(seconds: float) -> None:
        with writing(engine) as connection:
            older = idempotency_keys.c.created_at - seconds
            connection.execute(update(idempotency_keys).values(created_at=older))

    job, _ = queue.submit(engine, order(), "key 1")
    queue.cancel(engine, job.id)
    age(KEPT_SECONDS - 60)
    assert queue.submit(engine, order(), "key 1")[0].id == job.id
    age(61)
    later, created = queue.submit(engine, order(trials=5), "key 1")
    assert created
    with reading(engine) as connection:
        kept = connection.execute(select(idempotency_keys.c.job_seq)).scalars().all()
    assert len(kept) == 1
    assert queue.submit(engine, order(trials=5), "key 1") == (later, False)


def test_orderer_may_have_only_so_many_idempotency_keys(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of orders that join a job count too: no other quota limits these orders."""
    monkeypatch.setattr(idempotency, "MOST_KEYS", 3)
    mine = orders_of(engine, Orderer("key 1", None))
    job, _ = queue.submit(mine, order(), "key 0")
    for n in (1, 2):
        assert queue.submit(mine, order(), f"key {n}") == (job, False)
    before = everything(engine)
    for asked in (order(), order(trials=5)):
        with pytest.raises(TooManyKeys, match=r"at most 3 Idempotency-Keys.*without one, or wait"):
            queue.submit(mine, asked, "key 3")
    assert everything(engine) == before
    assert queue.submit(mine, order(), "key 2") == (job, False)
    assert queue.submit(orders_of(engine, Orderer("key 2", None)), order(), "key 3")[0] == job


def test_idempotency_key_remembers_the_job_it_joined(engine: Engine) -> None:
    job = submitted(engine)
    assert queue.submit(engine, order(), "late") == (job, False)
    cancelled = queue.cancel(engine, job.id)
    assert queue.submit(engine, order(), "late") == (cancelled, False)


@pytest.mark.parametrize("key", [None, "one key"])
def test_equal_orders_at_the_same_moment_make_one_job(engine: Engine, key: str | None) -> None:
    for length in range(5):
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _, n=length: _try(engine, n, key), range(8)))
        assert sum(created for _, created in answers) == (0 if key and length else 1)
        assert len({job for job, _ in answers}) == 1


def _try(engine: Engine, length: int, key: str | None) -> tuple[str, bool]:
    try:
        job, created = queue.submit(engine, order(length), key)
    except IdempotencyConflict:
        return "refused", False
    return job.id, created


def tuned(engine: Engine, kind: str, count: int, time_us: float) -> queue.Job:
    """Return a succeeded job with ``count`` trials and a best on a device of this kind."""
    submitted(engine, trials=count, target=kind)
    job = queue.claim(engine, "worker", [kind])
    assert job is not None
    part = device(engine, kind=kind).id
    stored = [new_trial(part, knob) for knob in range(count)]
    trials.add(engine, job.id, job.attempt, stored)
    best.finish_with_bests(
        engine, job.id, job.attempt, [best.BestWithFiles(new_best(job, part, time_us=time_us), [])]
    )
    return queue.get(engine, job.id)


def test_reuse_answers_with_the_job_behind_the_best(engine: Engine) -> None:
    gpu = tuned(engine, "cuda", 4, time_us=1.0)
    cpu = tuned(engine, "cpu", 8, time_us=50.0)
    reuse = order(on_existing="reuse")
    assert queue.submit(engine, reuse) == (gpu, False)  # target auto takes the fastest best
    assert queue.submit(engine, replace(reuse, target="cpu")) == (cpu, False)
    assert queue.submit(engine, replace(reuse, trials=8)) == (cpu, False)
    assert queue.submit(engine, replace(reuse, search="random", seed=1)) == (gpu, False)


def test_reuse_makes_a_job_if_no_best_has_enough_trials(engine: Engine) -> None:
    tuned(engine, "cuda", 4, time_us=1.0)
    assert queue.submit(engine, order(on_existing="reuse", trials=5))[1]
    assert queue.submit(engine, order(on_existing="reuse", target="cpu"))[1]
    assert queue.submit(engine, order(length=65, on_existing="reuse"))[1]


def searched(engine: Engine, **limits: Any) -> queue.Job:
    """Return a succeeded job with these limits that ended after two trials."""
    job = submitted(engine, **limits)
    held = claimed(engine)
    part = device(engine).id
    first = len(trials.measured_trials(engine, job.workload_key, part, "0.27.0"))
    stored = [new_trial(part, first + knob) for knob in range(2)]
    trials.add(engine, job.id, held.attempt, stored)
    best.finish_with_bests(
        engine, job.id, held.attempt, [best.BestWithFiles(new_best(job, part), [])]
    )
    return queue.get(engine, job.id)


def test_a_search_that_ended_by_patience_answers_no_order_that_allows_more(engine: Engine) -> None:
    short = searched(engine, on_existing="reuse", trials=50, patience=2)
    again = order(on_existing="reuse", trials=50, patience=2)
    assert queue.submit(engine, again) == (short, False)
    assert queue.submit(engine, replace(again, trials=40, search="grid")) == (short, False)
    assert queue.submit(engine, replace(again, patience=1)) == (short, False)
    for more in ({"patience": 3}, {"patience": None}, {"trials": 51}, {"on_existing": "retune"}):
        other, created = queue.submit(engine, replace(again, **more))
        assert created, more
        queue.cancel(engine, other.id)


def test_longer_search_also_answers_orders_of_a_shorter_one(engine: Engine) -> None:
    searched(engine, on_existing="reuse", trials=50, patience=2)
    longer = searched(engine, on_existing="reuse", trials=50, patience=5)
    for patience in (2, 5):
        asked = order(on_existing="reuse", trials=50, patience=patience)
        assert queue.submit(engine, asked) == (longer, False)
    assert queue.submit(engine, order(on_existing="reuse", trials=50))[1]


def test_a_search_that_ended_by_its_budget_answers_no_order_that_allows_more(
    engine: Engine,
) -> None:
    short = searched(engine, trials=50, budget_seconds=10.0)
    again = order(on_existing="reuse", trials=50, budget_seconds=10.0)
    assert queue.submit(engine, again) == (short, False)
    assert queue.submit(engine, replace(again, budget_seconds=9.0, patience=3)) == (short, False)
    for more in (10.5, None):
        assert queue.submit(engine, replace(again, budget_seconds=more))[1], more


def test_exhausted_space_is_not_searched_again(engine: Engine) -> None:
    """A search that ran out of configurations answers orders that add patience or a budget."""
    ended = searched(engine, on_existing="reuse", trials=50)
    asked = order(on_existing="reuse", trials=50, patience=7, budget_seconds=60.0)
    assert queue.submit(engine, asked) == (ended, False)


def test_imported_list_answers_only_orders_of_as_many_trials(engine: Engine) -> None:
    entries = [listed.ListedConfig({"template": "direct", "threads": knob}, 1) for knob in range(5)]
    asked = order(on_existing="reuse", trials=5)
    new = listed.ListedOrder(replace(asked, target="cuda", search=listed.IMPORTED), entries)
    [(job, _)] = listed.submit(engine, [new])
    held, part = claimed(engine), device(engine).id
    trials.add(engine, job.id, held.attempt, [new_trial(part, 0)])
    best.finish_with_bests(
        engine, job.id, held.attempt, [best.BestWithFiles(new_best(job, part), [])]
    )
    assert queue.submit(engine, asked)[1]
    assert queue.submit(engine, replace(asked, trials=1))[0].id == job.id


def test_failed_and_skipped_trials_do_not_answer_an_order(engine: Engine) -> None:
    """Only trials that worked count as evidence for an order with ``on_existing`` reuse.

    A list of one slow configuration and 200 that failed or were skipped answers no order of 64
    trials.
    """
    asked = order(on_existing="reuse", trials=64)
    entries = [
        listed.ListedConfig({"template": "direct", "threads": knob}, 1) for knob in range(201)
    ]
    brought = listed.ListedOrder(replace(asked, target="cuda", search=listed.IMPORTED), entries)
    [(job, _)] = listed.submit(engine, [brought])
    held, part = claimed(engine), device(engine).id
    refused = [
        new_trial(part, knob, status=status, time_us=None, timing=None)
        for knob, status in enumerate(["skipped"] * 100 + ["build_error"] * 100)
    ]
    trials.add(engine, job.id, held.attempt, [*refused, new_trial(part, 200, time_us=16.9)])
    best.finish_with_bests(
        engine, job.id, held.attempt, [best.BestWithFiles(new_best(job, part, time_us=16.9), [])]
    )
    search, created = queue.submit(engine, asked)
    assert created
    assert search.id != job.id
    assert queue.submit(engine, replace(asked, trials=1))[0].id == job.id


def test_orders_that_differ_only_in_patience_are_two_jobs(engine: Engine) -> None:
    waiting = submitted(engine, on_existing="reuse", patience=2)
    other, created = queue.submit(engine, order(on_existing="reuse", patience=3))
    assert created
    assert other.id != waiting.id
    assert queue.submit(engine, order(on_existing="reuse", patience=2)) == (waiting, False)


def test_retune_makes_a_new_job_although_a_best_exists(engine: Engine) -> None:
    tuned(engine, "cuda", 4, time_us=1.0)
    assert queue.submit(engine, order(on_existing="retune"))[1]


def test_reuse_does_not_answer_with_a_job_that_did_not_succeed(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    gpu = device(engine).id
    trials.add(engine, job.id, job.attempt, [new_trial(gpu, knob) for knob in range(4)])
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(new_best(job, gpu))])
    with writing(engine) as connection:
        connection.execute(update(jobs).values(state="failed"))
    assert queue.submit(engine, order(on_existing="reuse"))[1]
