"""Orders of models: which jobs a model makes and which it shares, keys, quotas and lists."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from model_rows import jobs_of, model_order, ordered, tuned_next
from sqlalchemy import Engine, event, select
from storage_rows import claimed, everything, order, submitted

from db import models, queue
from db.access.quota import Orderer, orders_of
from db.contract.model import LayerOrder, ModelOrder
from db.sql.errors import BadCursor, IdempotencyConflict, NotFound, QuotaExceeded
from db.sql.tables import jobs, metadata
from db.sql.transaction import reading


def test_each_workload_gets_a_job_on_the_orders_terms(engine: Engine) -> None:
    model = ordered(engine, 10, 11, 12, trials=7, patience=3, label="mine")
    assert (model.name, model.state, model.finished_at) == ("net", "queued", None)
    assert model.terms["patience"] == 3
    found = jobs_of(engine, model)
    assert [job.workload["M"] for job in found] == [10, 11, 12]
    assert {(job.trials, job.patience, job.label, job.state) for job in found} == {
        (7, 3, "mine", "queued")
    }
    assert models.get(engine, model.id).progress.model_dump() == {
        "trials": {"requested": 21, "measured": 0},
        "jobs": {"ended": 0, "all": 3},
    }


def test_equal_workloads_are_one_layer_with_their_calls_added(engine: Engine) -> None:
    layers = [LayerOrder(order(length), calls) for length, calls in ((10, 3), (11, 1), (10, 2))]
    model, _ = models.submit(engine, ModelOrder.of("net", layers))
    found = [(layer.job.workload["M"], layer.calls) for layer in models.layers(engine, model)]
    assert found == [(10, 5), (11, 1)]


def test_model_shares_a_queued_or_running_job(engine: Engine) -> None:
    running, waiting = submitted(engine, 10), submitted(engine, 11)
    assert claimed(engine).id == running.id
    model = ordered(engine, 10, 11, 12)
    ids = [job.id for job in jobs_of(engine, model)]
    assert ids[:2] == [running.id, waiting.id]
    assert len(queue.list_jobs(engine).items) == 3
    assert model.state == "running"
    other = ordered(engine, 12, 13, name="other")
    assert jobs_of(engine, other)[0].id == ids[2]


def test_model_shares_a_succeeded_job_only_with_reuse(engine: Engine) -> None:
    submitted(engine, 10)
    done = tuned_next(engine)
    model = ordered(engine, 10, 11, on_existing="reuse")
    first, second = jobs_of(engine, model)
    assert (first.id, first.state, second.state) == (done.id, "succeeded", "queued")
    assert model.state == "queued"  # no job has run for this model yet
    again = ordered(engine, 10, on_existing="retune")
    assert jobs_of(engine, again)[0].id != done.id
    more = ordered(engine, 10, on_existing="reuse", trials=done.trials + 1)
    assert jobs_of(engine, more)[0].id != done.id
    whole = ordered(engine, 10, on_existing="reuse", name="whole")
    assert (whole.state, whole.finished_at) == ("succeeded", whole.created_at)


def test_idempotency_key_returns_its_model_again(engine: Engine) -> None:
    model, _ = models.submit(engine, model_order(10, 11), "key 1")
    before = everything(engine)
    assert models.submit(engine, model_order(10, 11), "key 1")[0].id == model.id
    assert not models.submit(engine, model_order(10, 11), "key 1")[1]
    for other in (
        model_order(10),
        model_order(11, 10),
        model_order(10, 11, calls=2),
        model_order(10, 11, name="other"),
        model_order(10, 11, trials=5),
    ):
        with pytest.raises(IdempotencyConflict, match="key 1"):
            models.submit(engine, other, "key 1")
    with pytest.raises(IdempotencyConflict):
        queue.submit(engine, order(10), "key 1")  # jobs and models share the same keys
    assert everything(engine) == before
    assert models.submit(engine, model_order(10, 11))[1]


def test_model_beyond_the_quota_makes_no_job(engine: Engine) -> None:
    mine = orders_of(engine, Orderer("key 1", 3))
    submitted(mine, 10)
    before = everything(engine)
    with pytest.raises(QuotaExceeded, match=r"at most 3 jobs.*order less: this would make 3"):
        models.submit(mine, model_order(10, 11, 12, 13), "key")
    assert everything(engine) == before
    shared = ordered(mine, 10, 11, 12)  # makes two new jobs
    with reading(engine) as connection:
        assert set(connection.execute(select(jobs.c.ordered_by)).scalars()) == {"key 1"}
    assert len(jobs_of(engine, shared)) == 3


def test_number_of_statements_hardly_depends_on_the_layers(engine: Engine) -> None:
    """SQLite accepts no heartbeat of a worker while the order is written."""

    def statements(lengths: range) -> int:
        seen: list[str] = []

        def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            seen.append(statement)

        event.listen(engine, "before_cursor_execute", note)
        ordered(engine, *lengths, on_existing="reuse")
        event.remove(engine, "before_cursor_execute", note)
        return len(seen)

    statements(range(10, 12))
    # PostgreSQL's driver gets many rows in several batches
    assert statements(range(100, 356)) <= statements(range(20, 22)) + 6


def test_models_are_listed_newest_first(engine: Engine) -> None:
    made = [ordered(engine, 10 + n, 20 + n, name=f"net {n}") for n in range(5)]
    seen, cursor = [], None
    while True:
        page = models.list_models(engine, limit=2, cursor=cursor)
        seen += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [model.id for model in seen] == [model.id for model in reversed(made)]
    assert [len(model.jobs) for model in seen] == [2] * 5
    with pytest.raises(BadCursor):
        models.list_models(engine, cursor=queue.list_jobs(engine, limit=1).next_cursor)


@pytest.mark.parametrize("unknown", ["0" * 32, "nonsense", "", "\0", "\ud800", "A" * 32])
def test_unknown_model_raises_not_found(engine: Engine, unknown: str) -> None:
    ordered(engine, 10)
    for look in (models.get, models.cancel):
        with pytest.raises(NotFound, match="no model"):
            look(engine, unknown)


def test_model_is_found_by_the_beginning_of_its_id(engine: Engine) -> None:
    model = ordered(engine, 10)
    assert models.resolve_id(engine, model.id[:12]) == model.id
    with pytest.raises(NotFound, match="no model"):
        models.resolve_id(engine, "xyz")


def test_models_ordered_at_once_share_equal_jobs(engine: Engine) -> None:
    orders = [model_order(*range(10 + n, 14 + n), name=f"net {n}") for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda each: models.submit(engine, each)[0], orders))
    assert len(queue.list_jobs(engine).items) == 11
    assert [[job.workload["M"] for job in jobs_of(engine, model)] for model in made] == [
        list(range(10 + n, 14 + n)) for n in range(8)
    ]


def test_everything_covers_all_tables(engine: Engine) -> None:
    """Other tests rely on ``everything`` to notice any write."""
    ordered(engine, 10, 11)
    stored = everything(engine)
    assert set(stored) == set(metadata.tables)
    assert (len(stored["models"]), len(stored["model_layers"])) == (1, 2)
