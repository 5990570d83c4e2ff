"""A trial that was killed at a time limit is repeated by another job with a larger limit."""

import pytest
from processes import Database
from runs import Bench

from db import queue
from db.results import trials
from db.results.trials import NewTrial
from tests.tuner.measure.planted import Planted
from tuner.measure.versions import TVM
from tuner.plan.known import known_trials
from tuner.settings import Settings

SHAPE = {"M": 64, "N": 8}


def test_only_a_job_with_a_larger_limit_repeats_a_timed_out_trial(
    database: Database, bench: Bench
) -> None:
    right_or_hang, tried = Planted(), []
    right_or_hang.behaviours = ("right", "hang")
    for seed, limit in enumerate((4.0, 4.0, 5.0, 5.0)):
        job = database.submit(SHAPE, trials=2, search="grid", seed=seed)
        bench.run(database, job, among=[right_or_hang], run_seconds=limit)
        tried.append([(trial.config["behaviour"], trial.error) for trial in database.trials(job)])
    assert tried == [
        [("right", None), ("hang", "killed after 4 s")],
        [],
        [("hang", "killed after 5 s")],
        [],
    ]


@pytest.mark.parametrize("status", ["build_timeout", "run_timeout"])
def test_each_limit_counts_for_its_own_timeouts(
    database: Database, bench: Bench, status: str
) -> None:
    job = database.submit(SHAPE)
    held = queue.claim(database.engine, "bench", ["cpu"], job_id=job.id)
    assert held is not None
    device_id = bench.device_id(database)
    killed = NewTrial(
        device_id,
        {"template": "planted"},
        "planted",
        1,
        TVM,
        status,
        None,
        None,
        None,
        "killed after 60 s",
        {},
    )
    (stored,) = trials.add(database.engine, held.id, held.attempt, [killed])
    other = database.submit(SHAPE, seed=2)

    def known_under(build_seconds: float, run_seconds: float, to: queue.Job = other) -> bool:
        settings = Settings(build_seconds=build_seconds, run_seconds=run_seconds)
        return known_trials(database.engine, to, device_id, settings) == [stored]

    assert known_under(60, 60)
    assert known_under(30, 30)
    assert known_under(61, 60) == (status == "run_timeout")
    assert known_under(60, 61) == (status == "build_timeout")
    assert known_under(61, 61, to=job)  # a job does not repeat its own trials
