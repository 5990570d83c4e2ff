"""The reads behind a job's event stream: snapshots, marks of change, new trials, fastest trials."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine
from storage_rows import claimed, device, new_best, new_trial, submitted

from db import queue
from db.read import events
from db.results import best, trials
from db.sql.errors import NotFound

COUNTS: dict[str, Any] = {"measured": 0, "ok": 0, "failed": 0, "best": None, "eta_seconds": None}


@pytest.fixture
def gpu(engine: Engine) -> int:
    return device(engine).id


def measured(engine: Engine, job: queue.Job, gpu: int, *times: float | None, **by: Any) -> None:
    known = len(trials.measured_trials(engine, job.workload_key, gpu, "0.27.0"))
    new = [
        new_trial(gpu, known + place, time_us=time, status="ok" if time else "run_error", **by)
        for place, time in enumerate(times)
    ]
    trials.add(engine, job.id, job.attempt, new)


def test_each_step_of_a_job_changes_its_mark_and_never_lowers_its_stage(
    engine: Engine, gpu: int
) -> None:
    job = submitted(engine)
    seen = events.snapshot(engine, job.id)
    assert (seen.job, seen.device, seen.last, seen.stage) == (job, None, 0, 1)
    shown = {"config": {"threads": 1}, "time_us": 1.0, "gflops": 2.0}
    steps: list[tuple[int, Callable[[], Any]]] = [
        (1, lambda: claimed(engine)),
        (0, lambda: queue.progress(engine, job.id, 1, **COUNTS, device_id=gpu)),
        (0, lambda: queue.progress(engine, job.id, 1, **COUNTS | {"best": shown}, device_id=gpu)),
        (0, lambda: trials.add(engine, job.id, 1, [new_trial(gpu, 1)])),
        (0, lambda: queue.progress(engine, job.id, 1, **COUNTS | {"measured": 1}, device_id=gpu)),
        (1, lambda: queue.release(engine, job.id, 1)),
        (1, lambda: claimed(engine)),
        (1, lambda: queue.cancel(engine, job.id)),
        (1, lambda: queue.finish(engine, job.id, 2, "cancelled")),
    ]
    marks = [events.marks(engine, [seen.seq])[seen.seq]]
    stages = [seen.stage]
    for _, step in steps:
        step()
        marks.append(events.marks(engine, [seen.seq, 10**6])[seen.seq])
        stages.append(events.snapshot(engine, job.id).stage)
    assert all(old != new for old, new in pairwise(marks))
    raised = [new - old for old, new in pairwise(stages)]
    assert raised == [by for by, _ in steps]
    last = events.snapshot(engine, job.id)
    assert (last.job, last.last) == (queue.get(engine, job.id), 1)
    assert last.device == device(engine)


def test_heartbeat_does_not_change_the_mark_of_a_job(engine: Engine) -> None:
    """A heartbeat does not change a job's mark, so it wakes no listener."""
    submitted(engine)
    job = claimed(engine)
    seq = events.snapshot(engine, job.id).seq
    before = events.marks(engine, [seq])
    queue.heartbeat(engine, job.id, job.attempt)
    assert events.marks(engine, [seq]) == before
    assert events.marks(engine, []) == {}


def test_trials_after_returns_the_next_trials_in_order(engine: Engine, gpu: int) -> None:
    submitted(engine)
    job = claimed(engine)
    seq = events.snapshot(engine, job.id).seq
    assert events.trials_after(engine, seq, 0, 10) == []
    measured(engine, job, gpu, 3.0, None, 2.0)
    log = trials.list_trials(engine, job.id).items
    assert events.trials_after(engine, seq, 0, 2) == log[:2]
    assert events.trials_after(engine, seq, 2, 2) == log[2:]


def test_fastest_includes_comparable_trials_of_earlier_jobs(engine: Engine, gpu: int) -> None:
    """``fastest`` compares the job's trials so far and those stored before the job.

    It leaves out trials of another shape, device or version of TVM, of an earlier version of a
    template, and later ones.
    """
    other = device(engine, name="Other GPU").id
    submitted(engine, length=65)
    elsewhere = claimed(engine)
    measured(engine, elsewhere, gpu, 0.1)
    queue.finish(engine, elsewhere.id, 1, "failed")
    submitted(engine, seed=1)
    first = claimed(engine)
    measured(engine, first, gpu, 0.2, template="splits")
    measured(engine, first, gpu, 9.0, template="splits", template_version=2)
    measured(engine, first, gpu, 5.0)
    trials.add(engine, first.id, 1, [new_trial(other, 1, time_us=0.3)])
    trials.add(engine, first.id, 1, [new_trial(gpu, 1, time_us=0.4, tvm_version="0.26.0")])
    best.finish_with_bests(engine, first.id, 1, [best.BestWithFiles(new_best(first, gpu), [])])
    submitted(engine, seed=2)
    job = claimed(engine)
    seq = events.snapshot(engine, job.id).seq
    assert events.fastest(engine, seq, 0) is None
    measured(engine, job, gpu, 6.0, None, 4.0, 4.5, 3.0)
    assert [events.fastest(engine, seq, number) for number in range(6)] == [5, 5, 5, 4, 4, 3]
    later = submitted(engine, seed=3)
    measured(engine, claimed(engine), gpu, 1.0)
    assert events.fastest(engine, seq, 5) == 3
    of_later = events.snapshot(engine, later.id).seq
    assert events.fastest(engine, of_later, 0) == 3


def test_fastest_ignores_template_versions_that_came_after_the_job(
    engine: Engine, gpu: int
) -> None:
    """So a stream that is read again after an upgrade says the same as while the job ran."""
    submitted(engine, seed=1)
    first = claimed(engine)
    measured(engine, first, gpu, 5.0)
    # version 1 of the template; the job has version 2
    measured(engine, first, gpu, 0.1, template="splits")
    queue.finish(engine, first.id, 1, "failed")
    submitted(engine, seed=2)
    job = claimed(engine)
    measured(engine, job, gpu, 6.0)
    measured(engine, job, gpu, 4.0, template="splits", template_version=2)
    seq = events.snapshot(engine, job.id).seq
    told = [events.fastest(engine, seq, number) for number in range(3)]
    assert told == [5, 5, 4]
    submitted(engine, seed=3)
    later = claimed(engine)
    measured(engine, later, gpu, 7.0, template_version=2)
    measured(engine, later, gpu, 7.0, template="fft", template_version=9)
    assert [events.fastest(engine, seq, number) for number in range(3)] == told


@pytest.mark.parametrize("unknown", ["0" * 32, "nothing", "\0"])
def test_snapshot_of_an_unknown_job_raises_not_found(engine: Engine, unknown: str) -> None:
    with pytest.raises(NotFound):
        events.snapshot(engine, unknown)
