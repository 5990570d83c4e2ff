"""Bests: which one is kept for a workload and device, and how they are found and listed."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from sqlalchemy import Engine
from storage_rows import FILES, claimed, device, everything, new_best, recorded, submitted

from db import queue
from db.read import views
from db.results import artifacts, best
from db.sql.errors import NotFound


def job_of(engine: Engine, length: int = 64) -> queue.Job:
    """Submit a job and claim it."""
    submitted(engine, length)
    return claimed(engine)


def test_finishing_stores_artifacts_best_and_state_together(engine: Engine) -> None:
    job, gpu = job_of(engine), device(engine)
    given = new_best(job, gpu.id)
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(given, FILES)])
    [found] = best.lookup(engine, job.workload_key)
    files = {new.kind: new.sha256 for new in FILES}
    assert asdict(found).items() >= asdict(replace(given, artifacts=files)).items()
    assert (found.job_id, found.device) == (job.id, gpu)
    assert found.tuned_at.tzname() == "UTC"
    assert artifacts.get(engine, files["library"]).content == FILES[0].content
    ended = queue.get(engine, job.id)
    assert (ended.state, ended.error, ended.device_id) == ("succeeded", None, gpu.id)
    assert ended.finished_at is not None
    assert ended.best == {"config": given.config, "time_us": 1.5, "gflops": 600.0}


def test_a_best_that_names_a_missing_artifact_leaves_nothing_behind(engine: Engine) -> None:
    job, gpu = job_of(engine), device(engine)
    given = new_best(job, gpu.id, artifacts={"manifest": "0" * 64})
    before = everything(engine)
    with pytest.raises(NotFound, match="no artifact"):
        best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(given, FILES)])
    assert everything(engine) == before
    manifest = artifacts.put(engine, b"{}", "manifest", "application/json")
    given = replace(given, artifacts={"manifest": manifest})
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(given, FILES)])
    [found] = best.lookup(engine, job.workload_key)
    assert set(found.artifacts) == {"library", "source", "manifest"}
    assert found.sizes == {
        kind: artifacts.info(engine, sha256).size for kind, sha256 in found.artifacts.items()
    }


def test_a_best_of_another_workload_is_refused(engine: Engine) -> None:
    job, other, gpu = job_of(engine, 64), submitted(engine, 65), device(engine)
    before = everything(engine)
    with pytest.raises(ValueError, match="another workload"):
        recorded(engine, job, new_best(other, gpu.id))
    assert everything(engine) == before


def test_faster_best_replaces_the_row_and_its_artifacts(engine: Engine) -> None:
    first, gpu = job_of(engine), device(engine)
    best.finish_with_bests(
        engine, first.id, first.attempt, [best.BestWithFiles(new_best(first, gpu.id), FILES)]
    )
    second = job_of(engine)
    given = new_best(second, gpu.id, time_us=1.25)
    recorded(engine, second, given)
    [found] = best.lookup(engine, first.workload_key)
    assert (found.time_us, found.job_id, found.artifacts) == (1.25, second.id, {})


def finished(engine: Engine, gpu: int, **changes: Any) -> queue.Job:
    """Return a succeeded job whose best has files."""
    job = job_of(engine)
    best.finish_with_bests(
        engine, job.id, job.attempt, [best.BestWithFiles(new_best(job, gpu, **changes), FILES)]
    )
    return queue.get(engine, job.id)


def test_slower_round_does_not_replace_the_best(engine: Engine) -> None:
    gpu = device(engine)
    fast = finished(engine, gpu.id, time_us=1.0)
    slow = finished(engine, gpu.id, time_us=2.0, config={"template": "direct", "threads": 32})
    [found] = best.lookup(engine, fast.workload_key)
    assert (found.time_us, found.job_id, found.config["threads"]) == (1.0, fast.id, 64)
    assert slow.state == "succeeded"
    assert slow.best == fast.best


def test_slower_round_of_other_versions_replaces_the_best(engine: Engine) -> None:
    """Times of different versions are not comparable."""
    gpu = device(engine)
    finished(engine, gpu.id, time_us=1.0)
    later = finished(engine, gpu.id, time_us=2.0, versions={"tvm": "0.27.0", "protocol": "9"})
    [found] = best.lookup(engine, later.workload_key)
    assert (found.time_us, found.job_id) == (2.0, later.id)


def test_there_is_a_best_for_each_number_of_threads(engine: Engine) -> None:
    cpu, job = device(engine, kind="cpu", name="Test CPU"), job_of(engine)
    parallel = new_best(job, cpu.id, time_us=1.0, threads=8)
    serial = new_best(job, cpu.id, time_us=4.0, threads=1)
    best.finish_with_bests(
        engine,
        job.id,
        job.attempt,
        [best.BestWithFiles(parallel, FILES), best.BestWithFiles(serial)],
    )
    key = job.workload_key
    assert queue.get(engine, job.id).best == {
        "config": parallel.config, "time_us": 1.0, "gflops": 600.0
    }  # fmt: skip

    def found(threads: int | None) -> list[int | None]:
        return [each.threads for each in best.lookup(engine, key, threads=threads)]

    assert (found(None), found(8), found(7), found(1)) == ([8], [8], [1], [1])
    assert sorted(str(each.threads) for each in best.bests_on_device(engine, key, cpu.id)) == [
        "1",
        "8",
    ]
    assert [each.threads for each in best.lookup(engine, key, parallel=True)] == [8]
    gpu = device(engine)
    on_gpu = recorded(engine, job_of(engine), new_best(job, gpu.id, time_us=9.0))
    assert on_gpu.threads is None
    assert best.lookup(engine, key, threads=1)[-1] == on_gpu


def test_best_on_several_threads_is_found_even_if_it_is_slower(engine: Engine) -> None:
    one, other = (device(engine, kind="cpu", name=f"CPU {number}") for number in (1, 2))
    job = job_of(engine)
    both = [
        best.BestWithFiles(new_best(job, one.id, time_us=time, threads=threads))
        for time, threads in ((4.0, 1), (6.0, 8))
    ]
    best.finish_with_bests(engine, job.id, job.attempt, both)
    recorded(engine, job_of(engine), new_best(job, other.id, time_us=5.0, threads=1))

    def found(**asked: Any) -> list[tuple[float, int | None]]:
        rows = best.lookup(engine, job.workload_key, **asked)
        return [(each.time_us, each.threads) for each in rows]

    assert found() == [(4.0, 1), (5.0, 1)]
    assert found(parallel=True) == [(5.0, 1), (6.0, 8)]
    assert found(parallel=True, threads=1) == [(4.0, 1), (5.0, 1)]


def test_lookup_filters_by_device_and_returns_fastest_first(engine: Engine) -> None:
    job = job_of(engine)
    gpu, cpu = device(engine), device(engine, kind="cpu", name="Test CPU")
    slow = recorded(engine, job, new_best(job, cpu.id, time_us=90.0))
    fast = recorded(engine, job_of(engine), new_best(job, gpu.id, time_us=2.0))
    key = job.workload_key
    assert best.lookup(engine, key) == [fast, slow]
    assert best.lookup(engine, key, kind="cpu") == [slow]
    assert best.lookup(engine, key, device="Test GPU") == [fast]
    assert best.lookup(engine, key, device=cpu.id) == [slow]
    assert best.lookup(engine, key, device=str(cpu.id)) == [slow]
    assert best.lookup(engine, key, kind="cuda", device="Test CPU") == []
    for nothing in ("", "\0", "9" * 40, "٣"):
        assert best.lookup(engine, key, device=nothing) == []
    assert best.lookup(engine, "another workload") == []


def test_bests_of_an_operator_are_sorted_by_time(engine: Engine) -> None:
    gpu = device(engine)
    made = []
    for length, time_us in ((10, 3.0), (11, 1.0), (12, 2.0)):
        job = job_of(engine, length)
        made.append(recorded(engine, job, new_best(job, gpu.id, time_us=time_us)))
    assert best.bests_of_operator(engine, "conv1d") == [made[1], made[2], made[0]]
    assert best.bests_of_operator(engine, "conv1d", kind="cpu") == []
    assert best.bests_of_operator(engine, "depthwise_conv2d") == []


def test_best_replaced_between_two_pages_is_listed_once(engine: Engine) -> None:
    """A best that is replaced between two pages is listed once, in its old place."""
    gpu, held = device(engine), []
    for length in range(5):
        job = job_of(engine, length)
        recorded(engine, job, new_best(job, gpu.id))
        held.append(job)
    first = views.find_bests(engine, "conv1d", limit=2)
    recorded(engine, job_of(engine, 0), new_best(held[0], gpu.id, time_us=0.5))
    second = views.find_bests(engine, "conv1d", limit=2, cursor=first.next_cursor)
    third = views.find_bests(engine, "conv1d", limit=2, cursor=second.next_cursor)
    listed = [found.workload for page in (first, second, third) for found in page.items]
    assert listed == [job.workload for job in reversed(held)]
    assert third.next_cursor is None
    assert views.find_bests(engine, "depthwise_conv2d").items == []
