"""Jobs in which some configurations compute wrong answers, crash their process or never return."""

from pathlib import Path

import numpy as np
import pytest
from processes import Database
from runs import Bench

from db import queue
from db.results import artifacts, best
from tests.acceptance.deceptive import Deceptive, Doomed
from tests.tuner.measure.planted import Planted, PlantedBuild, PlantedHungry
from tuner.errors import NothingWorked
from tuner.library.load import load

SHAPE = {"M": 64, "N": 8}

NAIVE = {"template": "naive"}


def error_of(database: Database, found: best.Best, folder: Path) -> float:
    """Return the stored library's largest relative error on new random data."""
    suffixes = {"library": ".so", "manifest": ".json", "signature": ".sig"}
    paths = {kind: folder / f"kernel{suffix}" for kind, suffix in suffixes.items()}
    for kind, path in paths.items():
        path.write_bytes(artifacts.get(database.engine, found.artifacts[kind]).content)
    draw = np.random.default_rng()
    x, w = (draw.standard_normal(n).astype(np.float32) for n in SHAPE.values())
    expected = np.convolve(x.astype("f8"), w.astype("f8"))
    return float(np.abs(load(paths["library"])(x, w) - expected).max() / np.abs(expected).max())


def test_job_succeeds_although_some_candidates_are_wrong_crash_or_hang(
    database: Database, bench: Bench, tmp_path: Path
) -> None:
    job = database.submit(SHAPE, trials=10, search="grid")
    ended = bench.run(database, job, among=[Planted()], run_seconds=10)  # for the one that hangs
    assert (ended.state, ended.error) == ("succeeded", None)
    assert (ended.trials_measured, ended.trials_ok, ended.trials_failed) == (5, 1, 4)
    stored = {trial.config["behaviour"]: trial for trial in database.trials(job)}
    assert {behaviour: trial.status for behaviour, trial in stored.items()} == {
        "right": "ok",
        "wrong": "wrong_answer",
        "partial": "wrong_answer",
        "crash": "run_error",
        "hang": "run_timeout",
    }
    for behaviour, trial in stored.items():
        right = behaviour == "right"
        assert (trial.time_us is not None, trial.error is None) == (right, right)
        assert "build" in trial.seconds
    (found,) = best.lookup(database.engine, job.workload_key)
    assert found.config in (Planted().config("right"), NAIVE)  # the naive schedule takes part
    assert error_of(database, found, tmp_path) < 1e-5


def test_candidates_that_fail_to_build_are_stored_with_their_status(
    database: Database, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=4, search="grid")
    ended = bench.run(database, job, among=[PlantedBuild()])
    assert (ended.state, ended.trials_measured, ended.trials_ok) == ("succeeded", 4, 1)
    stored = {trial.config["behaviour"]: trial.status for trial in database.trials(job)}
    assert stored == {
        "right": "ok",
        "unschedulable": "schedule_error",
        "uncompilable": "build_error",
        "build_crash": "build_error",
    }


def test_candidate_killed_for_memory_is_tried_twice_and_again_by_the_next_job(
    database: Database, bench: Bench, tmp_path: Path
) -> None:
    hungry = PlantedHungry(tmp_path)
    job = database.submit(SHAPE, trials=2, search="grid")
    assert bench.run(database, job, among=[hungry]).state == "succeeded"
    stored = {trial.config["behaviour"]: trial for trial in database.trials(job)}
    assert {name: each.status for name, each in stored.items()} == {
        "right": "ok",
        str(tmp_path): "machine_error",
    }
    error = stored[str(tmp_path)].error
    assert error is not None and "SIGKILL, which the kernel sends if memory runs out" in error
    assert len((tmp_path / "tries").read_text().splitlines()) == 2
    (tmp_path / "enough").touch()
    later = database.submit(SHAPE, trials=2, search="grid", seed=2, on_existing="retune")
    assert bench.run(database, later, among=[hungry]).state == "succeeded"
    (trial,) = database.trials(later)
    assert (trial.config["behaviour"], trial.status) == (str(tmp_path), "ok")


def test_default_that_crashes_the_round_of_finalists_does_not_fail_the_job(
    database: Database, bench: Bench, tmp_path: Path
) -> None:
    job = database.submit(SHAPE, trials=2, search="grid", baselines="all")
    assert bench.run(database, job, among=[Deceptive()]).state == "succeeded"
    (found,) = best.lookup(database.engine, job.workload_key)
    assert found.config in (Deceptive().config("right"), NAIVE)
    baselines = {baseline["name"]: baseline for baseline in found.baselines}
    assert baselines.keys() >= {"default", "naive", "numpy.convolve"}
    assert baselines["default"]["time_us"] is None
    assert baselines["default"]["error"].startswith("run_error: ")
    assert baselines["naive"]["error"] is baselines["numpy.convolve"]["error"] is None
    assert error_of(database, found, tmp_path) < 1e-5


def test_job_without_a_working_configuration_fails_with_the_reason(
    database: Database, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=3)
    with pytest.raises(NothingWorked) as raised:
        bench.run(database, job, among=[Doomed()])
    said = str(raised.value)
    assert said.startswith("none of 3 configurations worked (2 wrong_answer, 1 run_error); first: ")
    assert "\n" not in said
    assert len(database.trials(job)) == 3
    assert best.lookup(database.engine, job.workload_key) == []

    again = database.submit(SHAPE, trials=3, seed=2)  # every configuration is known already
    with pytest.raises(NothingWorked, match=r"none of 3 .*2 wrong_answer, 1 run_error"):
        bench.run(database, again, among=[Doomed()])
    assert queue.get(database.engine, again.id).trials_measured == 0
