"""Whether a living worker can take a job, and for which job a caller may wait."""

import pytest
from sqlalchemy import Engine, update
from storage_rows import claimed, device, order, submitted

from db import queue
from db.fleet import workers
from db.queue import waiting
from db.sql import tables
from db.sql.columns import now
from db.sql.transaction import reading, writing


def reason(engine: Engine, job: queue.Job) -> str | None:
    """Return why no worker can take the job, or None if one can or need not."""
    with reading(engine) as connection:
        return waiting.waiting_reason(connection, queue.get(engine, job.id))


def beat(engine: Engine, name: str, kind: str, job_id: str | None = None) -> None:
    on = device(engine, kind=kind).id
    workers.beat(engine, name, host="host", pid=7, device_id=on, version="0.1.0", job_id=job_id)


def test_waiting_reason_says_that_no_worker_is_alive(engine: Engine) -> None:
    anywhere, on_gpu = submitted(engine), submitted(engine, 65, target="cuda")
    assert "no worker is alive" in (reason(engine, anywhere) or "")
    assert "on a host with a cuda device" in (reason(engine, on_gpu) or "")
    beat(engine, "silent", "cuda")
    with writing(engine) as connection:
        connection.execute(update(tables.workers).values(seen_at=now() - 61))
    assert "no worker is alive" in (reason(engine, on_gpu) or "")


def test_waiting_reason_names_the_missing_kind_of_device(engine: Engine) -> None:
    anywhere, on_gpu = submitted(engine), submitted(engine, 65, target="cuda")
    beat(engine, "a", "cpu")
    beat(engine, "b", "cpu")
    assert reason(engine, anywhere) is None
    said = reason(engine, on_gpu)
    assert said is not None
    for part in ("cuda device", "2 live: 2 cpu", "python -m tuner.worker", "target cpu"):
        assert part in said
    beat(engine, "c", "cuda", job_id="1" * 32)  # busy, but it will be free again
    assert reason(engine, on_gpu) is None


def test_running_or_ended_job_has_no_waiting_reason(engine: Engine) -> None:
    job = submitted(engine)
    held = claimed(engine)
    assert reason(engine, job) is None
    queue.finish(engine, job.id, held.attempt, "succeeded")
    assert reason(engine, job) is None


def test_waiting_reasons_of_many_jobs_are_read_at_once(engine: Engine) -> None:
    jobs = [submitted(engine, 64 + n, target=kind) for n, kind in enumerate(("auto", "cuda"))]
    beat(engine, "a", "cpu")
    with reading(engine) as connection:
        assert list(waiting.waiting_reasons(connection, jobs)) == [jobs[1].id]


def test_pending_job_is_found_by_workload_and_kind_of_device(engine: Engine) -> None:
    key = order().workload_key
    assert waiting.pending_job_for(engine, key) is None
    anywhere = submitted(engine)
    submitted(engine, 65)
    assert (waiting.pending_job_for(engine, key) or anywhere).id == anywhere.id
    assert waiting.pending_job_for(engine, key, "cuda") is None  # a CPU worker may take it
    on_cpu = submitted(engine, target="cpu")
    found = waiting.pending_job_for(engine, key, "cpu")
    assert found is not None and found.id == on_cpu.id
    assert waiting.pending_job_for(engine, key, "cpu", "Test CPU") is None  # another CPU may run it


def test_pending_job_that_runs_on_the_device_comes_first(engine: Engine) -> None:
    key = order().workload_key
    submitted(engine, target="cpu")
    on_gpu = submitted(engine, target="auto")
    held = claimed(engine)
    assert held.id == on_gpu.id
    gpu = device(engine)
    counts = {"measured": 0, "ok": 0, "failed": 0}
    queue.progress(
        engine, held.id, held.attempt, best=None, eta_seconds=None, device_id=gpu.id, **counts
    )
    for kind, name in ((None, None), ("cuda", None), (None, gpu.name), ("cuda", gpu.id)):
        found = waiting.pending_job_for(engine, key, kind, name)
        assert found is not None and found.id == on_gpu.id
    assert waiting.pending_job_for(engine, key, "cuda", "Other GPU") is None


@pytest.mark.parametrize("ended", ["succeeded", "cancelling"])
def test_ended_or_cancelling_job_is_not_pending(engine: Engine, ended: str) -> None:
    job = submitted(engine)
    held = claimed(engine)
    if ended == "succeeded":
        queue.finish(engine, job.id, held.attempt, "succeeded")
    else:
        queue.cancel(engine, job.id)
    assert waiting.pending_job_for(engine, order().workload_key) is None


def test_waiting_reason_says_that_the_worker_is_silent(engine: Engine) -> None:
    submitted(engine)
    job = claimed(engine)
    assert reason(engine, job) is None
    queue.heartbeat(engine, job.id, job.attempt, lease_seconds=-1)
    silent = f"its worker {job.worker} gives no sign of life; "
    assert (reason(engine, job) or "").startswith(f"{silent}no worker is alive")
    beat(engine, "other", "cpu")
    assert reason(engine, job) == f"{silent}the next free worker goes on with it"
    queue.heartbeat(engine, job.id, job.attempt)
    assert reason(engine, job) is None
