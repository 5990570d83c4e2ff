"""Limits on the unfinished jobs of one orderer."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, event, select
from storage_rows import claimed, everything, order, submitted

from db import queue
from db.access.quota import Orderer, orders_of
from db.records import listed
from db.records.listed import ListedConfig, ListedOrder
from db.sql.errors import QuotaExceeded
from db.sql.tables import jobs
from db.sql.transaction import reading


@pytest.fixture
def mine(engine: Engine) -> Engine:
    """The storage as used by the orderer ``key 1``, who may have two unfinished jobs."""
    return orders_of(engine, Orderer("key 1", 2))


def owners(engine: Engine) -> list[str | None]:
    """Return who ordered each job, oldest job first."""
    with reading(engine) as connection:
        return list(connection.execute(select(jobs.c.ordered_by).order_by(jobs.c.seq)).scalars())


def several(*lengths: int) -> list[ListedOrder]:
    """Return orders of imported lists, one for each length."""
    orders = (order(length, target="cuda", search=listed.IMPORTED) for length in lengths)
    return [ListedOrder(each, [ListedConfig({"a": 1}, 1)]) for each in orders]


def test_job_stores_who_ordered_it(engine: Engine, mine: Engine) -> None:
    """A job keeps the name of the key or address that ordered it; None for the command line."""
    submitted(engine, 10)
    submitted(mine, 11)
    submitted(orders_of(engine, Orderer("address 127.0.0.1", None)), 12)
    assert owners(engine) == [None, "key 1", "address 127.0.0.1"]


def test_order_beyond_the_quota_of_unfinished_jobs_is_refused(engine: Engine, mine: Engine) -> None:
    first = submitted(mine, 10)
    second = submitted(mine, 11)
    before = everything(engine)
    with pytest.raises(QuotaExceeded, match=r"at most 2 jobs.*wait until one has ended, or cancel"):
        queue.submit(mine, order(12), "a key of its own")
    assert everything(engine) == before
    submitted(orders_of(engine, Orderer("key 2", 1)), 12)
    submitted(engine, 13)  # ordered on the command line: it counts for nobody
    assert claimed(engine).id == first.id
    with pytest.raises(QuotaExceeded):
        queue.submit(mine, order(14))
    queue.cancel(engine, second.id)
    submitted(mine, 14)


def test_order_that_joins_a_job_does_not_count_for_the_quota(engine: Engine, mine: Engine) -> None:
    job, _ = queue.submit(mine, order(10), "key")
    submitted(mine, 11)
    assert queue.submit(mine, order(10), "key") == (job, False)
    assert queue.submit(mine, order(10)) == (job, False)


def test_import_beyond_the_quota_makes_no_job(engine: Engine, mine: Engine) -> None:
    with pytest.raises(QuotaExceeded):
        listed.submit(mine, several(10, 11, 12))
    assert owners(engine) == []
    assert len(listed.submit(mine, several(10, 11))) == 2
    assert owners(engine) == ["key 1", "key 1"]


def test_import_counts_jobs_once_for_any_number_of_shapes(engine: Engine, mine: Engine) -> None:
    """An import takes as many statements for 200 shapes as for 3, and one count of jobs.

    SQLite accepts no heartbeat of a worker while the import is written.
    """
    many = orders_of(engine, Orderer("key 1", 1000))

    def statements(lengths: range) -> int:
        seen: list[str] = []

        def note(_c: Any, _cursor: Any, statement: str, _p: Any, _x: Any, _m: bool) -> None:
            seen.append(statement)

        event.listen(engine, "before_cursor_execute", note)
        listed.submit(many, several(*lengths))
        event.remove(engine, "before_cursor_execute", note)
        assert len([text for text in seen if "count(*)" in text]) == 1
        return len(seen)

    assert statements(range(10, 13)) == statements(range(20, 220))
    assert len(owners(engine)) == 203


def test_imported_jobs_are_claimed_in_the_order_of_the_import(engine: Engine) -> None:
    waiting, [known] = several(30, 10, 20), several(10)
    [(first, _)] = listed.submit(engine, [known])
    taken = listed.submit(engine, [*waiting, waiting[0]])
    assert [job.workload["M"] for job, _ in taken] == [30, 10, 20]
    assert [created for _, created in taken] == [True, False, True]
    assert [claimed(engine).workload["M"] for _ in range(3)] == [10, 30, 20]
    assert taken[1][0].id == first.id
    assert [len(listed.of_job(engine, job.id)) for job, _ in taken] == [1, 1, 1]


def test_orders_at_the_same_moment_share_one_quota(engine: Engine, mine: Engine) -> None:
    def attempt(length: int) -> bool:
        try:
            return queue.submit(mine, order(length))[1]
        except QuotaExceeded:
            return False

    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(attempt, range(10, 34)))
    assert sum(taken) == 2
    assert owners(engine) == ["key 1", "key 1"]
