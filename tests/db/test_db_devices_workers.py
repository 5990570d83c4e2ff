"""Devices by their fingerprint, and workers by their heartbeats."""

from typing import Any

import pytest
from sqlalchemy import Engine, update
from storage_rows import FINGERPRINT, device

from db.fleet import devices, workers
from db.sql import tables
from db.sql.columns import now
from db.sql.transaction import writing


def test_equal_fingerprint_updates_the_limits_of_its_device(engine: Engine) -> None:
    first = device(engine)
    assert {"id": first.id, **FINGERPRINT} == first.__dict__
    again = device(engine, limits={"units": 114})
    assert (again.id, again.limits) == (first.id, {"units": 114})
    assert devices.list_devices(engine) == [again]


@pytest.mark.parametrize(
    "change",
    [{"kind": "cpu"}, {"name": "n"}, {"arch": "a"}, {"memory_bytes": 1}, {"driver": "d"}],
    ids=lambda change: next(iter(change)),
)
def test_other_fingerprint_is_another_device(engine: Engine, change: dict[str, Any]) -> None:
    """A change in any part of the fingerprint but the limits makes another device."""
    assert device(engine, **change).id != device(engine).id


def beat(engine: Engine, name: str, **changes: Any) -> None:
    values: dict[str, Any] = {
        "host": "host",
        "pid": 7,
        "device_id": None,
        "version": "0.1.0",
        "job_id": None,
    }
    workers.beat(engine, name, **values | changes)


def test_workers_are_listed_with_their_device_and_job(engine: Engine) -> None:
    gpu = device(engine)
    beat(engine, "b", device_id=gpu.id)
    beat(engine, "a")
    beat(engine, "b", device_id=gpu.id, job_id="1" * 32)
    first, second = workers.list_workers(engine)
    assert (first.name, first.device, first.job_id, first.alive) == ("a", None, None, True)
    assert (second.name, second.device, second.job_id) == ("b", gpu, "1" * 32)
    assert second.alive is True
    assert (second.host, second.pid, second.version) == ("host", 7, "0.1.0")
    assert second.started_at <= second.seen_at
    assert second.seen_at.tzname() == "UTC"
    workers.leave(engine, "b")
    workers.leave(engine, "b")
    assert [worker.name for worker in workers.list_workers(engine)] == ["a"]


def seen_ago(engine: Engine, name: str, seconds: float) -> None:
    """Make the worker's last heartbeat so many seconds old."""
    with writing(engine) as connection:
        statement = update(tables.workers).where(tables.workers.c.name == name)
        connection.execute(statement.values(seen_at=now() - seconds))


def test_silent_worker_is_not_alive_and_is_forgotten_after_a_week(engine: Engine) -> None:
    beat(engine, "silent")
    beat(engine, "loud")
    seen_ago(engine, "silent", 61)
    assert [worker.alive for worker in workers.list_workers(engine)] == [True, False]
    seen_ago(engine, "silent", workers.FORGET_SECONDS + 1)
    beat(engine, "loud")
    assert [worker.name for worker in workers.list_workers(engine)] == ["loud"]


def test_worker_seen_in_the_future_is_not_alive(engine: Engine) -> None:
    """Such a heartbeat is from before the database's clock was set back."""
    beat(engine, "seen before that")
    seen_ago(engine, "seen before that", -61)
    beat(engine, "seen since")
    seen_ago(engine, "seen since", -1)  # clocks are also adjusted a little
    assert [worker.alive for worker in workers.list_workers(engine)] == [False, True]
