"""Jobs that search with MetaSchedule: its traces are trials like others and one may be the best."""

import json
from pathlib import Path

import psutil
import pytest
from processes import Database
from runs import Bench, cancel_after

import templates
from db import queue
from db.fleet import devices
from db.records.formats import WRITERS, export
from db.records.records import Filters
from db.results import artifacts, best, trials
from templates.records.replay import trace_text
from templates.records.trace import Trace
from tests.tuner.measure.planted import PlantedSlow
from tuner.build.compile import BuildOrder, program_of
from tuner.cli import records
from tuner.job import final
from tuner.job.lease import Cancelled
from tuner.measure.versions import TVM

SHAPE = {"M": 3000, "N": 16}
TRACE = Trace()


def tiled(workload_key: str, seed: int) -> str:
    """Return the text of a trace that MetaSchedule has not proposed: it splits the output loop."""
    import tvm
    from tvm.s_tir import Schedule

    function = TRACE.computation(templates.parse_key(workload_key), {})
    schedule = Schedule(tvm.IRModule({"main": function}), seed=seed)
    outputs, _ = schedule.get_loops(schedule.get_sblock("y"))
    schedule.split(outputs, schedule.sample_perfect_tile(outputs, 2))
    return trace_text(schedule.trace)


def lost(database: Database, bench: Bench, job: queue.Job, traces: list[str]) -> None:
    """Store trials of these traces by an attempt whose lease has run out; the first one failed."""
    held = queue.claim(database.engine, "lost", ["cpu"], job_id=job.id)
    assert held is not None
    device = devices.upsert_device(database.engine, bench.device.fingerprint()).id
    measured = [
        trials.NewTrial(
            device_id=device,
            config=TRACE.config(text),
            template=TRACE.name,
            template_version=TRACE.version,
            tvm_version=TVM,
            status="ok" if place else "build_timeout",
            time_us=1e6 if place else None,
            timing=None,
            max_error=0.0 if place else None,
            error=None if place else "killed after 60 s",
            seconds={},
        )
        for place, text in enumerate(traces)
    ]
    trials.add(database.engine, job.id, held.attempt, measured)
    database.run_out(job)


def test_metaschedule_job_goes_on_from_its_traces_and_one_becomes_the_best(
    database: Database, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(final.NAIVE_MAX_FLOPS, "cpu", 0)  # naive may be faster than so few trials
    job = database.submit(SHAPE, trials=8, search="metaschedule")
    lost(database, bench, job, [tiled(job.workload_key, seed) for seed in (1, 2)])
    ended = bench.run(database, job, among=[PlantedSlow()])
    assert (ended.state, ended.trials_measured) == ("succeeded", 8)
    stored = database.trials(job)
    assert {(trial.template, trial.template_version) for trial in stored} == {("trace", 1)}
    assert len({trial.config["trace"] for trial in stored}) == 8
    assert [trial.status for trial in stored] == ["build_timeout", *["ok"] * 7]
    (found,) = best.lookup(database.engine, job.workload_key)
    assert (found.search, found.template, found.template_version) == ("metaschedule", "trace", 1)
    assert found.config in [trial.config for trial in stored[2:]]

    order = BuildOrder(
        job.workload_key, program_of(TRACE), found.config, bench.device.target, tmp_path / "a.so"
    )
    built = bench.builder.submit(order).result()
    assert (built.status, built.error) == ("ok", None)
    source = artifacts.get(database.engine, found.artifacts["source"]).content
    assert bench.builder.with_source(built).source == source.decode()
    assert b"ret" in source

    for name in WRITERS:
        log = b"".join(export(database.engine, name, Filters())).decode()
        assert json.dumps(found.config["trace"]) in log
    metaschedule_applies_it(database, found, tmp_path / "exported")

    other = database.submit(SHAPE, trials=1, search="grid")
    assert bench.run(database, other, among=[PlantedSlow()]).state == "succeeded"
    (kept,) = best.lookup(database.engine, job.workload_key)
    assert kept.template == "trace"  # the slower best of the later job did not replace it


def metaschedule_applies_it(database: Database, found: best.Best, folder: Path) -> None:
    """Assert that MetaSchedule applies the exported best and gets the same kernel."""
    import tvm
    import tvm_ffi
    from tvm import relax
    from tvm.s_tir import meta_schedule

    # two bests: on all threads and on one
    assert records.write_database(database.engine, Filters(), folder) == 2
    exported = meta_schedule.database.JSONDatabase(work_dir=str(folder))
    manifest = json.loads(artifacts.get(database.engine, found.artifacts["manifest"]).content)
    workload = templates.parse_key(found.workload_key)
    module = tvm.IRModule({"main": TRACE.computation(workload, found.config)})
    with tvm.target.Target(manifest["target"]), exported:
        applied = relax.transform.MetaScheduleApplyDatabase()(module)
    kernel = applied["main"].without_attr("tirx.is_scheduled")
    wanted = TRACE.schedule(workload, manifest["config"]).mod["main"]
    assert tvm_ffi.structural_equal(kernel, wanted)


def test_cancelled_metaschedule_job_ends_its_search_process(
    database: Database, bench: Bench
) -> None:
    job = database.submit(SHAPE, trials=8, search="metaschedule")
    before = set(psutil.Process().children())
    with pytest.raises(Cancelled):
        bench.run(database, job, watch=cancel_after(0, database, job))
    assert set(psutil.Process().children()) <= before
    assert database.trials(job) == []
