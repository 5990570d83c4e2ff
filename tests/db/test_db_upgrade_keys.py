"""A database of revision 0005 with a job in it is brought to 0006."""

from collections.abc import Iterator

import pytest
from alembic import command
from sqlalchemy import Engine, inspect, text
from storage_rows import order

from db import queue
from db.access import keys
from db.access.quota import Orderer, orders_of
from db.sql.engine import check_schema, migrate, open_engine, writing
from db.sql.schema import _config


@pytest.fixture
def old(blank_url: str) -> Iterator[Engine]:
    engine = open_engine(blank_url)
    with writing(engine) as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
        workload = "INSERT INTO workloads (key, operator, workload) VALUES ('k', 'o', '{}')"
        connection.execute(text(workload))
        connection.execute(
            text(
                "INSERT INTO jobs (id, order_key, workload_id, target, search, on_existing,"
                " trials_requested, state, cancel_requested, attempt, released, trials_measured,"
                " trials_ok, trials_failed, created_at) VALUES (:id, 'x', 1, 'cuda', 'xgb',"
                " 'reuse', 4, 'queued', false, 0, 0, 0, 0, 0, 1.0)"
            ),
            {"id": "0" * 32},
        )
    yield engine
    engine.dispose()


def test_jobs_of_before_are_nobodys_and_there_is_no_key(old: Engine) -> None:
    assert not inspect(old).has_table("api_keys")
    migrate(old)
    check_schema(old)
    assert queue.get(old, "0" * 32).state == "queued"
    assert keys.list_keys(old) == []
    assert queue.submit(orders_of(old, Orderer("key 1", 1)), order())[1]
