"""Ladders: the latest one of each workload and device is kept and listed."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, select
from storage_rows import device, submitted

from db.results import ladders
from db.sql import tables
from db.sql.errors import BadCursor
from db.sql.transaction import reading

ROW = {"name": "000 naive", "what": "rung", "time_us": 18.25, "note": None}


def new_ladder(device_id: int, length: int = 64, **changes: Any) -> ladders.NewLadder:
    values: dict[str, Any] = {
        "operator": "conv1d",
        "workload_key": f'{{"M":{length},"operator":"conv1d"}}',
        "workload": {"M": length},
        "device_id": device_id,
        "rows": [ROW],
        "documents": [{"number": "000", "title": "steps", "workload": {"M": 64}}],
        "clocks": {"sm_mhz": 1980},
        "versions": {"apache-tvm": "0.27.0"},
    }
    return ladders.NewLadder(**values | changes)


def test_a_ladder_comes_back_as_it_was_stored(engine: Engine) -> None:
    gpu = device(engine)
    new = new_ladder(gpu.id)
    number = ladders.record(engine, new)
    (found,) = ladders.list_ladders(engine, "conv1d").items
    assert {**new.__dict__, "id": number, "device": gpu, "climbed_at": found.climbed_at} == (
        found.__dict__
    )
    assert found.climbed_at.tzname() == "UTC"


def test_new_ladder_replaces_the_old_one_and_is_listed_first(engine: Engine) -> None:
    gpu, cpu = device(engine), device(engine, kind="cpu")
    ladders.record(engine, new_ladder(gpu.id))
    ladders.record(engine, new_ladder(cpu.id))
    ladders.record(engine, new_ladder(gpu.id, length=65))
    faster = new_ladder(gpu.id, rows=[ROW | {"time_us": 9.5}])
    ladders.record(engine, faster)
    found = ladders.list_ladders(engine, "conv1d").items
    listed = [(each.workload["M"], each.device_id) for each in found]
    assert listed == [(64, gpu.id), (65, gpu.id), (64, cpu.id)]
    assert found[0].rows == faster.rows
    kinds = [each.device.kind for each in ladders.list_ladders(engine, "conv1d", "cpu").items]
    assert kinds == ["cpu"]
    assert ladders.list_ladders(engine, "depthwise_conv2d").items == []
    assert ladders.list_ladders(engine, "\0").items == []


def test_ladders_are_listed_in_pages(engine: Engine) -> None:
    gpu = device(engine)
    for length in range(1, 6):
        ladders.record(engine, new_ladder(gpu.id, length))
    first = ladders.list_ladders(engine, "conv1d", limit=2)
    ladders.record(engine, new_ladder(gpu.id, 5))  # it is first already, so no page shifts
    second = ladders.list_ladders(engine, "conv1d", limit=3, cursor=first.next_cursor)
    assert [each.workload["M"] for each in [*first.items, *second.items]] == [5, 4, 3, 2, 1]
    assert second.next_cursor is None
    with pytest.raises(BadCursor):
        ladders.list_ladders(engine, "conv1d", cursor="!")


def test_ladders_stored_at_once_leave_one(engine: Engine) -> None:
    gpu = device(engine)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: ladders.record(engine, new_ladder(gpu.id)), range(8)))
    assert len(ladders.list_ladders(engine, "conv1d").items) == 1


def test_a_ladder_and_a_job_share_their_workload(engine: Engine) -> None:
    job = submitted(engine)
    gpu = device(engine)
    ladders.record(engine, new_ladder(gpu.id, workload_key=job.workload_key))
    with reading(engine) as connection:
        assert len(connection.execute(select(tables.workloads)).all()) == 1
