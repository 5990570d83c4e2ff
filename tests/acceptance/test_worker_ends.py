"""Workers that are killed or asked to end in the middle of a job."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil
from processes import Database, Start, alive, until
from runs import Bench

from db import queue
from db.fleet import workers
from db.results import best, trials
from tuner.process.scratch import PREFIX

SHAPE = {"M": 512, "N": 8}


def all_ended(children: Sequence[psutil.Process]) -> bool:
    return not any(map(alive, children))


def whole(database: Database, job: queue.Job, before: list[trials.Trial]) -> None:
    """Assert that the job has succeeded, has kept the trials ``before``, and has none twice."""
    ended = queue.get(database.engine, job.id)
    assert (ended.state, ended.error) == ("succeeded", None)
    after = database.trials(job)
    assert after[: len(before)] == before
    assert [trial.number for trial in after] == list(range(1, job.trials + 1))
    assert len({trial.config_key for trial in after}) == job.trials
    assert ended.trials_measured == job.trials
    assert ended.trials_ok == sum(trial.status == "ok" for trial in after)
    (found,) = best.lookup(database.engine, job.workload_key)
    assert (found.job_id, found.trials_measured) == (job.id, job.trials)


def test_a_killed_workers_job_is_finished_by_the_next(
    database: Database, start: Start, tmp_path: Path
) -> None:
    job = database.submit(SHAPE, trials=12)
    first = start()
    until(lambda: database.trials(job))
    children = first.children()
    first.kill()
    until(partial(all_ended, children), 10)
    assert len(children) >= 2  # a builder and a runner
    before = database.trials(job)
    assert 0 < len(before) < 12
    held = queue.get(database.engine, job.id)
    assert held.state == "running"
    assert queue.claim(database.engine, "too early", ["cpu"]) is None
    database.run_out(job)

    assert list(tmp_path.glob(f"{PREFIX}*/"))  # a killed worker can't clean up
    second = start("--once")
    assert second.wait() == 0
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
    whole(database, job, before)
    ended = queue.get(database.engine, job.id)
    assert (ended.attempt, ended.released) == (2, 0)
    assert ended.worker != held.worker


def test_sigterm_gives_the_job_back_at_once_without_charging_an_attempt(
    database: Database, start: Start, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=10)

    def now() -> queue.Job:
        return queue.get(database.engine, job.id)

    moments: dict[str, Callable[[], object]] = {
        "searching": lambda: now().trials_measured > 0,
        "deciding": lambda: now().trials_measured == 10,
    }
    before: list[trials.Trial] = []
    for turn, (moment, reached) in enumerate(moments.items(), 1):
        worker = start()
        until(reached)
        children = worker.children()
        code, seconds = worker.stop()
        assert (code, seconds < 10) == (0, True), moment
        assert [line["job_id"] for line in worker.said("job_released")] == [job.id]
        waiting = now()
        assert (waiting.state, waiting.attempt, waiting.released) == ("queued", turn, turn)
        until(partial(all_ended, children))
        assert database.trials(job)[: len(before)] == before
        before = database.trials(job)
    bench.run(database, job)
    whole(database, job, before)


def test_sigterm_ends_an_idle_worker(database: Database, start: Start) -> None:
    worker = start()
    (shown,) = until(lambda: workers.list_workers(database.engine))
    assert (shown.alive, shown.job_id, shown.pid) == (True, None, worker.process.pid)
    code, seconds = worker.stop()
    assert (code, seconds < 10) == (0, True)
    assert workers.list_workers(database.engine) == []
