"""The client's models against a real service process: ordered, listed, waited for, cancelled."""

import inspect
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from service_process import Service
from stored_best import claimed

from db import queue
from db.fleet import devices
from tuner.client import models as module
from tuner.client.answers import Model
from tuner.client.client import Client
from tuner.errors import BadOrder, ModelFailed, ModelStillRunning, ServiceError
from tuner.job.order import TERMS


def layers(*lengths: int, calls: int = 2) -> list[dict[str, Any]]:
    return [{"operator": "conv1d", "workload": {"M": m, "N": 3}, "calls": calls} for m in lengths]


def ending(service: Service, *states: Any) -> Thread:
    """Start a thread that claims one job for each of ``states`` and finishes it in that state."""

    def work() -> None:
        for state in states:
            job = claimed(service.engine)
            time.sleep(0.05)
            queue.finish(service.engine, job.id, job.attempt, state, f"it {state}")

    thread = Thread(target=work)
    thread.start()
    return thread


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path)
    yield running
    running.close()


def test_submitted_model_can_be_read_listed_and_cancelled(client: Client) -> None:
    model = client.submit_model("net", layers(900, 901, 900), trials=7, target="cpu", seed=3)
    assert (model.name, model.state, model.target, model.trials) == ("net", "queued", "cpu", 7)
    assert [(each.workload["M"], each.calls) for each in model.layers] == [(900, 4), (901, 2)]
    assert client.job(model.layers[0].job).trials.requested == 7
    assert client.model(model) == client.model(model.id) == model
    newest = next(client.models())
    assert (newest.id, newest.progress) == (model.id, model.progress)
    cancelled = client.cancel_model(model)
    assert (cancelled.state, cancelled.ended) == ("cancelled", True)
    with pytest.raises(ServiceError, match="was already cancelled"):
        client.cancel_model(model)


def test_client_lists_the_models_of_all_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MODELS_PER_PAGE", 2)
    made = [client.submit_model(f"net {n}", layers(910)).id for n in range(5)]
    listed = client.models()
    assert [next(listed).id for _ in made] == made[::-1]


def test_refused_model_names_the_wrong_field(client: Client) -> None:
    with pytest.raises(ServiceError) as refusal:
        client.submit_model("net", [*layers(100), *layers(0)])
    assert refusal.value.errors[0]["field"] == "workloads.1.workload.M"
    with pytest.raises(BadOrder, match=r"^colour: is no term of an order; those are trials"):
        client.submit_model("net", layers(100), colour="red")
    with pytest.raises(BadOrder, match=r"^operator: give a number"):
        client.submit_model("net", [{"operator": object()}])


def test_submit_model_has_a_parameter_for_each_term_of_an_order() -> None:
    """``submit_model`` has a parameter for each of an order's terms."""
    assert list(inspect.signature(Client.submit_model).parameters)[3:] == list(TERMS)


def test_wait_model_shows_each_step_and_returns_the_ended_model(
    service: Service, client: Client
) -> None:
    model = client.submit_model("net", layers(920, 921, 922), target="cpu")
    seen: list[Model] = []
    worker = ending(service, "succeeded", "succeeded", "succeeded")
    ended = client.wait_model(model, timeout=30, progress=seen.append)
    worker.join()
    assert ended.state == "succeeded"
    assert ended == seen[-1] == client.model(model)
    assert ended.progress.jobs.ended == 3
    counts = [each.progress.jobs.ended for each in seen]
    assert counts == sorted(counts)
    assert client.wait_model(model.id, timeout=0) == ended


def test_wait_model_shows_that_a_job_has_begun(service: Service, client: Client) -> None:
    model = client.submit_model("net", layers(925), target="cpu")
    seen: list[str] = []
    held: list[queue.Job] = []

    def work(now: Model) -> None:
        seen.append(now.state)
        if now.state == "queued":
            held.append(claimed(service.engine))
        elif now.state == "running":
            queue.finish(service.engine, held[0].id, held[0].attempt, "succeeded", None)

    client.wait_model(model, timeout=4, progress=work)
    assert seen == ["queued", "running", "succeeded"]


def test_wait_model_raises_model_failed_if_a_job_fails(service: Service, client: Client) -> None:
    model = client.submit_model("net", layers(930, 931), target="cpu")
    worker = ending(service, "failed", "succeeded")
    with pytest.raises(ModelFailed, match=f"failed: 1 of 2 jobs .*{model.layers[0].job}") as failed:
        client.wait_model(model, timeout=30)
    worker.join()
    assert [each.state for each in failed.value.model.layers] == ["failed", "succeeded"]


def test_wait_model_raises_model_still_running_after_its_timeout(client: Client) -> None:
    model = client.submit_model("net", layers(940, 941), target="cpu")
    with pytest.raises(ModelStillRunning, match=r"is queued after 0\.3 s, with 0 of 2 jobs ended"):
        client.wait_model(model, timeout=0.3)


def test_wait_model_ends_if_the_model_is_cancelled_though_a_shared_job_goes_on(
    service: Service, client: Client
) -> None:
    shared = client.submit("conv1d", M=950, N=3)
    model = client.submit_model("net", layers(950, 951))
    stopper = Thread(target=lambda: (time.sleep(0.5), client.cancel_model(model)))
    stopper.start()
    with pytest.raises(ModelFailed, match="was cancelled"):
        client.wait_model(model, timeout=30)
    stopper.join()
    assert client.job(shared).state == "queued"


def test_wait_model_outlasts_a_restart_of_the_service(own_service: Service, tmp_path: Path) -> None:
    devices.upsert_device(
        own_service.engine,
        {"kind": "cpu", "name": "c", "arch": "a", "memory_bytes": 1, "driver": "", "limits": {}},
    )
    with Client(own_service.url, cache=tmp_path / "cache") as client:
        model = client.submit_model("net", layers(100), target="cpu")

        def restart() -> None:
            time.sleep(0.5)
            own_service.stop()
            time.sleep(0.5)
            own_service.start()
            ending(own_service, "succeeded").join()

        thread = Thread(target=restart)
        thread.start()
        assert client.wait_model(model, timeout=60).state == "succeeded"
        thread.join()
