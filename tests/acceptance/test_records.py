"""Logs that are exported from one installation and measured in another; verified neighbours.

The jobs run for real, with compiler and CPU.
"""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from processes import Database
from runs import Bench
from starlette.testclient import TestClient

import templates
from api.main import create_app
from api.settings import Settings as ApiSettings
from db import queue
from db.records.records import Filters
from db.results import best as bests
from db.results.best import Best
from tuner.cli import records
from tuner.errors import NothingWorked
from tuner.job.job import JobRun
from tuner.job.lease import Cancelled, Lease
from tuner.job.progress import Progress
from tuner.job.publish import Signing
from tuner.library.signing_key import own_key
from tuner.settings import Settings

SHAPE = {"M": 2000, "N": 64}  # so large that a template is faster than the naive schedule


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, bench: Bench) -> Database:
    """A database with one tuned shape, which the tests of this module share."""
    database = Database(tmp_path_factory.mktemp("tuned"))
    assert bench.run(database, database.submit(SHAPE, trials=2)).state == "succeeded"
    return database


def best(database: Database, **shape: int) -> Best:
    workload = templates.operator("conv1d").workload.model_validate(shape)
    return bests.lookup(database.engine, workload.key)[0]


def log(database: Database) -> list[dict[str, Any]]:
    """Return the lines of the exported log of bests."""
    stream = io.BytesIO()
    records.write(database.engine, "convtune", Filters(), "bests", stream)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def imported(database: Database, *lines: dict[str, Any]) -> queue.Job:
    """Import lines as one log, and return the job that it makes."""
    text = "\n".join(json.dumps(line) for line in lines)
    read = records.read_log(io.BytesIO(text.encode()), "log")
    [(job, created)] = records.store(database.engine, read).jobs
    assert created
    return job


def test_imported_configurations_are_measured_again(
    tuned: Database, database: Database, bench: Bench
) -> None:
    [line] = log(tuned)
    elsewhere = line | {"config": line["config"] | {"lanes": 5}, "time_us": 1e-3}
    job = imported(database, elsewhere, line | {"time_us": 1e-3})
    ended = bench.run(database, job)
    assert (ended.state, ended.trials_measured, ended.trials_failed) == ("succeeded", 2, 1)
    skipped, measured = database.trials(job)
    assert (skipped.status, skipped.config["lanes"]) == ("skipped", 5)
    assert "lanes: 5 is not one of its values" in str(skipped.error)
    assert (measured.status, measured.config) == ("ok", line["config"])
    found = best(database, **SHAPE)
    assert found.time_us > 1e-2
    assert set(found.artifacts) == {"library", "source", "manifest", "record", "signature"}


def test_the_naive_schedule_can_be_imported(
    tuned: Database, database: Database, bench: Bench
) -> None:
    [line] = log(tuned)
    naive = line | {"template": "naive", "version": 1, "config": {"template": "naive"}}
    ended = bench.run(database, imported(database, naive))
    [trial] = database.trials(ended)
    assert (ended.state, trial.status, trial.config) == ("succeeded", "ok", naive["config"])


def test_import_without_a_valid_configuration_fails_with_the_reason(
    tuned: Database, database: Database, bench: Bench
) -> None:
    [line] = log(tuned)
    job = imported(database, line | {"config": {"template": line["template"], "flux": 1}})
    with pytest.raises(Exception, match=r"none of 1 .*1 skipped.*flux: no such knob"):
        bench.run(database, job)


def misfits(line: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return copies of the line whose configurations no device takes."""
    return [line | {"config": {"template": line["template"], "flux": n}} for n in range(count)]


def test_trial_stored_meanwhile_by_another_job_is_used_and_not_repeated(
    tuned: Database, database: Database, bench: Bench
) -> None:
    """A trial that another job stores meanwhile is used, and not stored twice.

    This happens on a host with two equal GPUs.
    """
    [line] = log(tuned)
    job = imported(database, line)
    another = imported(database, line, *misfits(line, 1))

    def meanwhile(_: Progress) -> None:
        if not queue.get(database.engine, another.id).ended:
            bench.run(database, another)

    ended = bench.run(database, job, watch=meanwhile)
    assert ended.state == "succeeded"
    finalists = [each["config"] for each in best(database, **SHAPE).timing["finalists"]]
    assert line["config"] in finalists  # which the default may beat
    assert database.trials(job) == []


def test_cancel_is_noticed_while_invalid_configurations_are_skipped(
    tuned: Database, database: Database, bench: Bench
) -> None:
    job = imported(database, *misfits(log(tuned)[0], 250))
    held = queue.claim(database.engine, "bench", ["cpu"])
    assert held is not None
    queue.cancel(database.engine, job.id)
    settings = Settings()
    with Lease(database.engine, held) as lease, pytest.raises(Cancelled):
        JobRun(
            database.engine,
            lease,
            bench.device,
            bench.device_id(database),
            bench.builder,
            settings=settings,
            signing=Signing(own_key(settings.signing_key)),
        ).run()
    assert database.trials(job) == []


def test_configuration_skipped_by_an_earlier_job_is_not_stored_again(
    tuned: Database, database: Database, bench: Bench
) -> None:
    [line] = log(tuned)
    for count in (120, 121):
        job = imported(database, *misfits(line, count))
        with pytest.raises(NothingWorked, match=f"none of {count} configurations"):
            bench.run(database, job)
    [last] = database.trials(job)
    assert last.config["flux"] == 120


def test_a_neighbours_configuration_is_built_and_checked(tuned: Database, bench: Bench) -> None:
    # the signal is longer than the neighbour's, so whatever configuration has won is valid
    asked = "/best/conv1d?M=2100&N=64&match=nearest"
    with TestClient(create_app(ApiSettings(database_url=tuned.url))) as client:
        guess = client.get(asked).json()
        assert (guess["match"], guess["verified"], guess["time_us"]) == ("nearest", False, None)
        order = guess["verify"]
        job = client.request(order["method"], order["url"], json=order["body"]).json()
        assert bench.run(tuned, queue.get(tuned.engine, job["id"])).state == "succeeded"
        answer = client.get(asked).json()
        assert (answer["match"], answer["verified"]) == ("nearest", True)
        assert answer["neighbour"] == guess["neighbour"]
        assert answer["time_us"] > 0
        assert answer["max_error"] <= 1e-5
        manifest = client.get(answer["artifacts"]["manifest"]["url"]).json()
        assert manifest["workload"]["M"] == 2100
        [trial] = client.get(f"/jobs/{job['id']}/trials").json()["items"]
        assert (trial["status"], trial["config"]) == ("ok", guess["config"])


def test_metaschedule_applies_the_exported_database(tuned: Database, tmp_path: Path) -> None:
    import tvm
    import tvm_ffi
    from tvm import relax
    from tvm.s_tir import meta_schedule

    assert records.write_database(tuned.engine, Filters(), tmp_path) == len(log(tuned))
    database = meta_schedule.database.JSONDatabase(work_dir=str(tmp_path))
    found = best(tuned, **SHAPE)
    workload = templates.parse_key(found.workload_key)
    [template] = [
        each
        for each in templates.operator("conv1d").templates
        if (each.kind, each.name) == ("cpu", found.template)
    ]
    manifest = json.loads(files_of(tuned, found)["manifest"])
    target = tvm.target.Target(manifest["target"])
    module = tvm.IRModule({"main": template.computation(workload, found.config)})
    wanted = template.schedule(workload, found.config).mod
    with target, database:
        applied = relax.transform.MetaScheduleApplyDatabase()(module)
    kernel = applied["main"].without_attr("tirx.is_scheduled")
    assert tvm_ffi.structural_equal(kernel, wanted["main"])


def files_of(database: Database, found: Best) -> dict[str, bytes]:
    from db.results import artifacts

    return {
        kind: artifacts.get(database.engine, sha256).content
        for kind, sha256 in found.artifacts.items()
    }
