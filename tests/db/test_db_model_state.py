"""Facts of a model that follow from its jobs: state, time to go, and gain over peers."""

from dataclasses import replace
from typing import Any

import pytest
from model_rows import jobs_of, ordered, tuned_next
from sqlalchemy import Engine, update
from storage_rows import claimed, device

from db import models, queue
from db.contract.model import ModelListed, ModelShown
from db.models.state import JobSummary, Model
from db.results.fastest import fastest_pytorch
from db.sql.tables import jobs
from db.sql.transaction import writing
from db.upkeep import prune
from db.upkeep.check import check


def pytorch(name: str, time_us: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "time_us": time_us, "speedup": time_us / 1.5, **more}


def report(engine: Engine, job: queue.Job, measured: int, eta_seconds: float | None) -> None:
    figures = {"measured": measured, "ok": measured, "failed": 0, "best": None}
    gpu = device(engine).id
    queue.progress(engine, job.id, job.attempt, **figures, eta_seconds=eta_seconds, device_id=gpu)  # type: ignore[arg-type]


def test_state_of_a_model_follows_from_its_jobs(engine: Engine) -> None:
    model = ordered(engine, 10, 11, 12)
    assert model.state == "queued"
    job = claimed(engine)
    assert models.get(engine, model.id).state == "running"
    report(engine, job, 3, 5.0)
    assert models.get(engine, model.id).progress.trials.measured == 3
    queue.finish(engine, job.id, job.attempt, "failed", "nothing worked")
    between = models.get(engine, model.id)
    assert (between.state, between.progress.jobs.ended) == ("running", 1)
    tuned_next(engine)
    tuned_next(engine)
    ended = models.get(engine, model.id)
    assert (ended.state, ended.progress.jobs.ended) == ("failed", 3)
    assert ended.finished_at == jobs_of(engine, model)[-1].finished_at
    assert [each.state for each in models.list_models(engine).items] == ["failed"]


def test_model_succeeds_if_all_its_jobs_succeed(engine: Engine) -> None:
    model = ordered(engine, 10, 11)
    tuned_next(engine)
    tuned_next(engine)
    ended = models.get(engine, model.id)
    assert (ended.state, ended.eta_seconds) == ("succeeded", None)


def model_of(*jobs: JobSummary, seen_at: float = 1100.0) -> Model:
    return Model(1, "0" * 32, "net", {}, 1000.0, None, seen_at, jobs)


def job(
    state: Any, eta: float | None = None, since: float | None = None, until: Any = None
) -> JobSummary:
    return JobSummary(1, state, False, 4, 0, eta, since, until)


@pytest.mark.parametrize(
    ("jobs", "left"),
    [
        ([job("queued")], None),  # unknown: no worker has the job
        ([job("running", None, 1090.0), job("queued")], None),
        ([job("running", 20.0, 1090.0)], 20.0),
        ([job("running", 20.0, 1090.0), job("queued")], 20 + 30),
        ([job("succeeded", None, 1000.0, 1090.0), job("running", 20.0, 1090.0), job("queued")],
         20 + (90 + 30) / 2),
        ([job("running", 20.0, 1090.0), job("running", 40.0, 1090.0), job("queued")],
         (20 + 40 + 40) / 2),
        ([job("running", 200.0, 1090.0), job("running", 10.0, 1090.0)], 200.0),
        ([job("succeeded", None, 1000.0, 1090.0)], None),
    ],
)  # fmt: skip
def test_the_time_left_comes_from_the_jobs_estimates(
    jobs: list[JobSummary], left: float | None
) -> None:
    assert model_of(*jobs).eta_seconds == left


def test_gain_of_a_model_counts_only_layers_with_a_pytorch_time(engine: Engine) -> None:
    model = ordered(engine, 10, 11, 12, calls=2)
    rows = [pytorch("pytorch NCW", 6.0), pytorch("pytorch compiled NCW", 4.5)]
    tuned_next(engine, baselines=rows)
    assert models.time_of(models.layers(engine, model)).model_dump() == {
        "tuned_us": 3.0,
        "baseline_us": 9.0,
        "gain": 3.0,
        "layers": 1,
    }
    tuned_next(engine, baselines=[{"name": "numpy", "time_us": 300.0, "speedup": 200.0}])
    tuned_next(engine, baselines=[pytorch("pytorch NCW", 1.0)])
    found = models.layers(engine, models.get(engine, model.id))
    assert [layer.best and layer.best.peer and layer.best.peer.name for layer in found] == [
        "pytorch compiled NCW", None, "pytorch NCW",
    ]  # fmt: skip
    time = models.time_of(found)
    assert (time.tuned_us, time.baseline_us, time.layers) == (6.0, 11.0, 2)
    shown = ModelShown(**models.to_fields(models.get(engine, model.id), found))
    assert (shown.trials, shown.search, shown.label, shown.time) == (4, "xgb", None, time)
    assert [(layer.calls, layer.state) for layer in shown.layers] == [(2, "succeeded")] * 3


def test_a_convolution_with_its_gates_counts_once(engine: Engine) -> None:
    """The layer without gates, which is for calls that are not compiled, counts only if the layer
    with gates has no best."""
    model = ordered(engine, 10, 11, 12)
    for time_us in (6.0, 9.0, 3.0):
        tuned_next(engine, baselines=[pytorch("pytorch NCW", time_us)])
    plain, gates, other = models.layers(engine, models.get(engine, model.id))
    shape = {name: value for name, value in plain.job.workload.items() if name != "gated"}
    gated = replace(gates, job=replace(gates.job, workload=shape | {"gated": True}))
    assert models.time_of([plain, gated, other]).baseline_us == 9.0 + 3.0
    assert models.time_of([plain, replace(gated, best=None), other]).baseline_us == 6.0 + 3.0


def test_model_without_comparable_layers_has_no_gain(engine: Engine) -> None:
    model = ordered(engine, 10)
    assert models.time_of(models.layers(engine, model)).model_dump() == {
        "tuned_us": None, "baseline_us": None, "gain": None, "layers": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        ({"layout": "NHWC"}, "pytorch NHWC"),
        ({"layout": "NWC"}, "pytorch NHWC"),
        ({"layout": "NCHW"}, "pytorch compiled NCHW 1 thread"),
        ({}, "pytorch compiled NCHW 1 thread"),
    ],
)
def test_the_peer_is_pytorch_in_the_same_layout(layout: dict[str, str], name: str) -> None:
    rows = [
        pytorch("cudnn NHWC", 0.1),
        pytorch("pytorch NHWC", 3.0),
        pytorch("pytorch compiled NHWC", 2.0, error="wrong"),
        pytorch("pytorch compiled NCHW 1 thread", 4.0),
        pytorch("pytorch NCHW", 5.0),
        {"name": "pytorch compiled NCHW", "time_us": None, "speedup": None},
        {"name": "default", "time_us": 0.5, "speedup": 0.3},
    ]
    found = fastest_pytorch(layout, {"warm": {}}, 1.5, rows)
    assert found["name"] == name


def test_call_of_pytorch_is_compared_with_our_call() -> None:
    """Our kernel alone is faster than our call, so comparing it would hide the cost of a call.

    On a CPU peers are timed by calls.
    """
    timing = {"call": {"median_us": 6.0}}
    found = fastest_pytorch({}, timing, 1.5, [pytorch("pytorch", 12.0, level="call")])
    assert (found["time_us"], found["speedup"]) == (12.0, 2.0)


def test_layer_shows_a_best_only_if_device_and_templates_fit(engine: Engine) -> None:
    before = ordered(engine, 10, on_existing="reuse")
    tuned_next(engine)
    [best] = [layer.best for layer in models.layers(engine, before)]
    assert best is not None
    assert (best.template, best.time_us, best.device.kind) == ("direct", 1.5, "cuda")
    for terms, answered in (
        ({"target": "cpu"}, False),
        ({"target": "cuda"}, True),
        ({"templates": ("tiled",)}, False),
        ({"templates": ("direct",)}, True),
    ):
        model = ordered(engine, 10, on_existing="retune", seed=len(str(terms)), **terms)
        [layer] = models.layers(engine, model)
        assert (layer.best is not None) == answered, terms


def test_prune_does_not_change_what_a_model_shows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "WARM_JOBS", 0)
    model = ordered(engine, 10, 11)
    tuned_next(engine)
    job = claimed(engine)
    queue.finish(engine, job.id, job.attempt, "failed")
    with writing(engine) as connection:
        connection.execute(update(jobs).values(created_at=0.0, finished_at=1.0))
    told = models.layers(engine, models.get(engine, model.id))
    prune.prune(engine, 0)
    assert models.layers(engine, models.get(engine, model.id)) == told
    assert check(engine).wrong == []
    assert ModelListed(**models.get(engine, model.id).to_fields()).state == "failed"
