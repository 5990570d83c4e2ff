"""Jobs ordered for one device: which workers take them, which bests answer, and why they wait."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine
from storage_rows import device, new_best, new_trial, order, submitted

from db import queue
from db.fleet import workers
from db.fleet.devices import Device
from db.queue import waiting
from db.results import best, trials
from db.sql.transaction import reading

FAST, SLOW = "NVIDIA H200", "NVIDIA T4"


@pytest.fixture
def fast(engine: Engine) -> Device:
    return device(engine, name=FAST)


@pytest.fixture
def slow(engine: Engine) -> Device:
    return device(engine, name=SLOW, arch="sm_75")


def claimed_by(engine: Engine, device: Device | None) -> str | None:
    job = queue.claim(engine, "worker", ["cuda"], device=device and device.name)
    return None if job is None else job.id


def tuned_on(engine: Engine, device: Device, time_us: float) -> queue.Job:
    """Return a succeeded job that was ordered for this device and has a best on it."""
    submitted(engine, target="cuda", for_device=device.name)
    job = queue.claim(engine, "worker", ["cuda"], device=device.name)
    assert job is not None
    trials.add(engine, job.id, job.attempt, [new_trial(device.id, knob) for knob in range(4)])
    made = new_best(job, device.id, time_us=time_us)
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(made, [])])
    return queue.get(engine, job.id)


def reason(engine: Engine, job: queue.Job) -> str | None:
    with reading(engine) as connection:
        return waiting.waiting_reason(connection, job)


def test_job_for_a_device_goes_only_to_a_worker_with_it(
    engine: Engine, fast: Device, slow: Device
) -> None:
    wanted, anywhere = submitted(engine, for_device=SLOW), submitted(engine, 65)
    assert claimed_by(engine, fast) == anywhere.id
    assert claimed_by(engine, fast) is None
    assert claimed_by(engine, None) is None
    assert claimed_by(engine, slow) == wanted.id


def test_expired_job_for_a_device_goes_only_to_a_worker_with_it(
    engine: Engine, fast: Device, slow: Device
) -> None:
    wanted = submitted(engine, for_device=SLOW)
    queue.claim(engine, "gone", ["cuda"], -1, device=slow.name)
    assert claimed_by(engine, fast) is None
    assert claimed_by(engine, slow) == wanted.id


def test_orders_for_two_devices_are_two_jobs(engine: Engine) -> None:
    jobs = {
        queue.submit(engine, order(for_device=name))[0].id
        for name in (FAST, SLOW, None, SLOW, None)
    }
    assert len(jobs) == 3


def test_order_for_a_device_does_not_reuse_a_best_of_another(
    engine: Engine, fast: Device, slow: Device
) -> None:
    there = tuned_on(engine, fast, time_us=1.0)
    reuse = order(target="cuda", on_existing="reuse")
    job, created = queue.submit(engine, replace(reuse, for_device=SLOW))
    assert created and job.for_device == SLOW
    queue.cancel(engine, job.id)
    here = tuned_on(engine, slow, time_us=9.0)
    for name, answer in ((SLOW, here), (FAST, there), (None, there)):
        assert queue.submit(engine, replace(reuse, for_device=name)) == (answer, False)
    assert queue.submit(engine, reuse, reused_on=SLOW) == (here, False)
    waits, created = queue.submit(engine, reuse, reused_on="another")
    assert created and waits.for_device is None


def test_waiting_reason_names_the_missing_device(
    engine: Engine, fast: Device, slow: Device
) -> None:
    def lives(name: str, on: Device) -> None:
        workers.beat(
            engine, name, host="host", pid=7, device_id=on.id, version="0.1.0", job_id=None
        )

    wanted = submitted(engine, target="cuda", for_device=SLOW)
    assert f"on a host with a cuda device called “{SLOW}”" in (reason(engine, wanted) or "")
    lives("a", fast)
    lives("b", fast)
    said = reason(engine, wanted) or ""
    for part in (
        f"has a cuda device called “{SLOW}”",
        "2 live: 2 cuda",
        f"or order for_device {FAST}",
    ):
        assert part in said
    of_no_kind = submitted(engine, 65, target="cpu", for_device=FAST)
    assert (reason(engine, of_no_kind) or "").endswith(", or order target cuda")
    neither = submitted(engine, 66, target="cpu", for_device=SLOW)
    expected = ", or leave for_device out and order target cuda"
    assert (reason(engine, neither) or "").endswith(expected)
    lives("c", slow)
    assert reason(engine, wanted) is None


@pytest.mark.parametrize("target", ["cuda", "auto"])
def test_pending_job_for_a_device_is_found_by_its_name_or_id(
    engine: Engine, slow: Device, target: str
) -> None:
    key = order().workload_key
    wanted = submitted(engine, target=target, for_device=SLOW)
    for asked in (SLOW, str(slow.id), None):
        job = waiting.pending_job_for(engine, key, "cuda", asked)
        assert job is not None and job.id == wanted.id
    twin = device(engine, name=SLOW, arch="sm_75", driver="581.0")
    held = queue.claim(engine, "worker", ["cuda"], device=SLOW)
    assert held is not None
    queue.progress(
        engine, held.id, held.attempt, measured=0, ok=0, failed=0, best=None, eta_seconds=None,
        device_id=slow.id,
    )  # fmt: skip
    assert waiting.pending_job_for(engine, key, "cuda", slow.id) is not None
    assert waiting.pending_job_for(engine, key, "cuda", twin.id) is not None  # ordered by its name
    for kind, asked in (("cuda", FAST), ("cuda", "None"), ("cpu", SLOW)):
        assert waiting.pending_job_for(engine, key, kind, asked) is None
