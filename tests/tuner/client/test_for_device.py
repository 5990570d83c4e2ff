"""Orders for one device, by the client and in this process."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from stored_best import store_on_another_cpu

from db import queue
from db.contract.order import PREDICTED, JobFilter
from db.fleet import devices, workers
from db.sql.engine import migrate, open_engine
from templates.conv1d.workload import Conv1dWorkload
from tests.tuner.shell import said
from tuner.client.client import Client
from tuner.client.local import Local
from tuner.device import cpu_facts
from tuner.errors import BadOrder, JobFailed
from tuner.job.order import parse_terms
from tuner.settings import Settings

OTHER = "CPU of another host"
SHAPE = {"M": 64, "N": 3}
TERMS = ["--M", "64", "--N", "3", "--target", "cpu", "--trials", "1", "--baselines", "none"]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("TUNER_DATABASE_URL", f"sqlite:///{tmp_path / 'convtune.db'}")
    monkeypatch.setenv("TUNER_SIGNING_KEY", str(tmp_path / "key"))
    return Settings()


@pytest.fixture
def other_best(settings: Settings) -> Engine:
    """Return a database in which another CPU has a fast best for SHAPE, after four trials."""
    engine = open_engine(settings.database_url)
    migrate(engine)
    store_on_another_cpu(engine, Conv1dWorkload(**SHAPE), OTHER)
    return engine


def newest(engine: Engine) -> queue.Job:
    [job] = queue.list_jobs(engine, JobFilter(), limit=1).items
    return job


def test_tune_command_tunes_for_this_device(
    other_best: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another device's best in the same database neither answers the order nor is shown."""
    assert OTHER not in said(capsys, "tune", "conv1d", *TERMS)
    assert newest(other_best).state == "succeeded"
    assert [each.name for each in devices.list_devices(other_best)] == [OTHER, cpu_facts.name()]


def test_local_tunes_for_this_device(settings: Settings, other_best: Engine) -> None:
    layers = [{"operator": "conv1d", "workload": SHAPE}]
    terms: dict[str, Any] = {"target": "cpu", "trials": 1, "baselines": "none"}
    with Local(settings) as local:
        [layer] = local.tune_model("net", layers, **terms).layers
        assert layer.best is not None and layer.best.device.name == cpu_facts.name()
        made = local.tune("conv1d", SHAPE, **terms)
        assert (made.device.name, made.job) == (cpu_facts.name(), layer.job)
        assert local.load(made).workload == Conv1dWorkload(**SHAPE)


def test_tune_command_runs_an_equal_order_that_is_queued(
    settings: Settings, other_best: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    order = queue.JobOrder.of(Conv1dWorkload(**SHAPE), target="cpu", trials=1, baselines="none")
    waits, _ = queue.submit(other_best, replace(order, on_existing="retune"))
    said(capsys, "tune", "conv1d", *TERMS, "--retune")
    assert (newest(other_best).id, newest(other_best).state) == (waits.id, "succeeded")


def test_tune_command_does_not_wait_for_an_equal_job_on_another_device(
    settings: Settings, other_best: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    order = queue.JobOrder.of(Conv1dWorkload(**SHAPE), target="cpu", trials=1, baselines="none")
    queue.submit(other_best, replace(order, on_existing="retune"))
    [there] = devices.list_devices(other_best)
    workers.beat(
        other_best, "far", host="far", pid=7, device_id=there.id, version="0.1.0", job_id=None
    )
    held = queue.claim(other_best, "far", ["cpu"])
    assert held is not None
    said(capsys, "tune", "conv1d", *TERMS, "--retune")
    assert (newest(other_best).state, newest(other_best).for_device) == (
        "succeeded",
        cpu_facts.name(),
    )
    assert queue.get(other_best, held.id).state == "running"


def test_local_refuses_an_order_for_another_device(settings: Settings) -> None:
    layers = [{"operator": "conv1d", "workload": SHAPE}]
    with Local(settings) as local:
        with pytest.raises(BadOrder, match=f"^for_device: is '{OTHER}', but this process tunes on"):
            local.tune("conv1d", **SHAPE, target="cpu", for_device=OTHER)
        with pytest.raises(BadOrder, match=r"^for_device: "):
            local.tune_model("net", layers, target="cpu", for_device=OTHER)
        made = local.tune("conv1d", SHAPE, target="cpu", trials=1, for_device=cpu_facts.name())
        assert made.device.name == cpu_facts.name()


def test_client_submits_an_order_for_one_device(client: Client) -> None:
    job = client.submit("conv1d", SHAPE, for_device=OTHER)
    assert client.job(job).for_device == OTHER
    layers = [{"operator": "conv1d", "workload": SHAPE}]
    assert client.submit_model("net", layers, for_device=OTHER).for_device == OTHER


def test_client_orders_a_prediction_for_the_device_it_asks_for(client: Client) -> None:
    with client:
        waited = []

        def cancelled(job: object, *_: object) -> None:
            waited.append(client.cancel(job))  # type: ignore[arg-type]
            raise JobFailed(waited[0])

        client.wait = cancelled  # type: ignore[method-assign,assignment]
        with pytest.raises(JobFailed):
            client.best("conv1d", SHAPE, match=PREDICTED, target="cuda", device="NVIDIA T4")
    assert (waited[0].for_device, waited[0].target) == ("NVIDIA T4", "cuda")


@pytest.mark.parametrize("name", ["x" * 201, "a\tb", "", "  "])
def test_malformed_device_name_is_refused(name: str) -> None:
    with pytest.raises(BadOrder, match=r"^for_device: "):
        parse_terms({"for_device": name})
