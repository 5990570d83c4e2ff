"""The reads behind pages: trials without details, similar jobs, bests by parts of their shape."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine
from storage_rows import claimed, device, new_best, new_trial, recorded, submitted

from db.read import views
from db.results import best, trials
from db.sql.errors import BadCursor, NotFound


def stored(engine: Engine, length: int, **fields: Any) -> best.Best:
    """Store a best of a conv1d of this length and these fields, and return it."""
    workload = {"M": length, "N": 3, "mode": "full", "max_error": 1e-5, **fields}
    key = json.dumps({"operator": "conv1d", **workload})
    submitted(engine, length, workload=workload, workload_key=key)
    job = claimed(engine)
    return recorded(engine, job, new_best(job, device(engine).id))


def test_points_of_a_job_leave_out_the_details_of_trials(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    place = device(engine).id
    new = [
        new_trial(place, knob, time_us=9.0 - knob, status="ok" if knob != 2 else "run_error")
        for knob in range(5)
    ]
    trials.add(engine, job.id, job.attempt, new)
    points = views.points(engine, job.id)
    assert [point.number for point in points] == [1, 2, 3, 4, 5]
    assert [point.time_us for point in points] == [9.0, 8.0, 7.0, 6.0, 5.0]
    assert points[2].status == "run_error"
    assert views.configs(engine, job.id, [1, 5, 7]) == {1: new[0].config, 5: new[4].config}
    assert [config["threads"] for config, _, _ in views.samples(engine, job.id, 2)] == [2]
    assert len(views.samples(engine, job.id, 5)) == 5
    assert views.points(engine, "0" * 32) == []
    with pytest.raises(NotFound):
        views.points(engine, "nothing")


def test_bests_are_found_by_parts_of_their_shape(engine: Engine) -> None:
    made = [stored(engine, 64), stored(engine, 128, mode="same"), stored(engine, 256)]

    def found(**shape: Any) -> list[int]:
        bests = views.find_bests(engine, "conv1d", shape, usual={"bias": False, "layout": "NCW"})
        return [row.workload["M"] for row in bests.items]

    assert found() == [256, 128, 64]
    assert found(M=128) == [128]
    assert found(N=3, mode="full") == [256, 64]
    assert found(max_error=1e-5, M=64) == [64]
    assert found(max_error=1e-4) == found(mode="\0") == found(bias=True) == []
    assert found(bias=False, M=64) == found(layout="NCW", M=64) == [64]
    assert found(layout="NWC") == []
    assert views.find_bests(engine, "depthwise_conv2d").items == []
    first = views.find_bests(engine, limit=2)
    rest = views.find_bests(engine, limit=2, cursor=first.next_cursor)
    assert [row.id for row in (*first.items, *rest.items)] == [each.id for each in made[::-1]]
    assert (rest.next_cursor, first.items[0].device_name) == (None, "Test GPU")
    place = device(engine).id
    assert len(views.find_bests(engine, device_id=place).items) == 3
    assert views.find_bests(engine, device_id=place + 1).items == []
    assert views.count_bests(engine) == {place: 3}
    with pytest.raises(BadCursor):
        views.find_bests(engine, cursor="x")


def test_fastest_peers_of_jobs_are_read_from_their_bests(engine: Engine) -> None:
    submitted(engine)
    first = claimed(engine)
    baselines = [{"name": "pytorch", "time_us": 3.0}, {"name": "numpy", "time_us": 300.0}]
    recorded(engine, first, new_best(first, device(engine).id, baselines=baselines))
    submitted(engine, 65)
    alone = claimed(engine)
    recorded(engine, alone, new_best(alone, device(engine).id, baselines=[]))
    waiting = submitted(engine, 66)
    found = views.fastest_peers(engine, [first.id, alone.id, waiting.id, "0" * 32])
    assert found == {first.id: {"name": "pytorch", "time_us": 3.0, "speedup": 2.0}}
    assert views.fastest_peers(engine, []) == {}


def test_jobs_alike_lists_other_jobs_of_a_workload_newest_first(engine: Engine) -> None:
    submitted(engine)
    first = claimed(engine)
    submitted(engine, 65)  # a job of another shape, which is left out
    second = submitted(engine, search="random")
    third = submitted(engine, search="grid")
    assert [job.id for job in views.jobs_alike(engine, first, 5)] == [third.id, second.id]
    assert [job.id for job in views.jobs_alike(engine, second, 1)] == [third.id]
