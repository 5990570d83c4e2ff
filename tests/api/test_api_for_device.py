"""Orders for one device, over HTTP and on the pages."""

from typing import Any

import pytest
from problem_shape import problem
from service_rows import GPU, HOST, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from db.records import listed

SHAPE = {"M": 100, "N": 3}
ORDER = {"operator": "conv1d", "workload": SHAPE}
HTML = {"accept": "text/html"}
T4 = GPU | {"name": "NVIDIA T4", "arch": "sm_75"}


def test_job_shows_its_device_and_its_best_link_asks_for_it(client: TestClient) -> None:
    made = client.post("/jobs", json=ORDER | {"for_device": "NVIDIA T4"}).json()
    assert made["for_device"] == "NVIDIA T4"
    assert made["links"]["best"].endswith("device=NVIDIA+T4")
    assert "on a host with a device called “NVIDIA T4”" in made["waiting"]
    assert client.post("/jobs", json=ORDER).json()["for_device"] is None
    page = client.get(f"/ui/jobs/{made['id']}", headers=HTML).text
    assert "<span>Device</span><strong>NVIDIA T4</strong>" in page
    assert '<td data-label="Device">NVIDIA T4</td>' in client.get("/", headers=HTML).text


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 201, 7])
def test_invalid_device_name_is_refused(client: TestClient, name: Any) -> None:
    problem(
        client.post("/jobs", json=ORDER | {"for_device": name}),
        422,
        "invalid-request",
        "for_device",
    )


def test_404_of_a_best_on_a_device_contains_the_order_for_that_device(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", SHAPE, GPU)
    for match in ("exact", "predicted"):
        query = {**SHAPE, "target": "cuda", "device": "NVIDIA T4", "match": match}
        told = problem(client.get("/best/conv1d", params=query), 404, "not-tuned")
        assert told["tune"]["body"]["for_device"] == "NVIDIA T4"
        ordered = client.post(told["tune"]["url"], json=told["tune"]["body"])
        assert (ordered.status_code, ordered.json()["for_device"]) == (201, "NVIDIA T4")
    page = client.get("/ui/best/conv1d", params={**SHAPE, "device": "NVIDIA T4"}, headers=HTML).text
    assert page.count('name="for_device" value="NVIDIA T4"') == 2  # to predict, and to order


def test_nearest_order_for_a_device_prefers_a_lender_on_that_device(
    client: TestClient, engine: Engine
) -> None:
    """A best of that device lends the configuration if one is as close, otherwise any other."""
    far = tuned(engine, "conv1d", {"M": 4096, "N": 32}, GPU)
    asked = {"operator": "conv1d", "workload": {"M": 4000, "N": 32}}
    on_t4 = asked | {"for_device": "NVIDIA T4"}

    def lender(order: dict[str, Any]) -> tuple[str | None, str]:
        job = client.post("/jobs/nearest", json=order).json()
        [lent] = listed.of_job(engine, job["id"])
        client.post(job["links"]["cancel"])
        return job["for_device"], lent.source["job"]

    assert lender(on_t4) == ("NVIDIA T4", far.id)
    assert lender(asked) == (None, far.id)
    near = tuned(engine, "conv1d", {"M": 4096, "N": 32}, T4, time_us=99.0)
    assert lender(on_t4) == ("NVIDIA T4", near.id)
    assert lender(asked) == (None, far.id)
    own = tuned(engine, "conv1d", {"M": 4000, "N": 32}, GPU)
    assert client.post("/jobs/nearest", json=asked).json()["id"] == own.id
    assert lender(on_t4) == ("NVIDIA T4", own.id)  # another device's best of the shape itself


def test_device_of_another_kind_lends_no_configuration(client: TestClient, engine: Engine) -> None:
    """A configuration of a CPU is of no use for a device that is known to be a GPU."""
    tuned(engine, "conv1d", {"M": 3999, "N": 32}, HOST)
    tuned(engine, "depthwise_conv2d", {"B": 1, "C": 3, "H": 9, "W": 9, "K": 3}, T4)
    asked = {"operator": "conv1d", "workload": {"M": 4000, "N": 32}, "for_device": "NVIDIA T4"}
    told = problem(client.post("/jobs/nearest", json=asked), 404, "not-tuned")
    assert told["tune"]["body"]["for_device"] == "NVIDIA T4"
    farther = tuned(engine, "conv1d", {"M": 4096, "N": 32}, GPU)
    job = client.post("/jobs/nearest", json=asked).json()
    [lent] = listed.of_job(engine, job["id"])
    assert (job["target"], lent.source["job"]) == ("cuda", farther.id)


def test_jobs_of_a_model_are_for_the_models_device(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", SHAPE, GPU)
    order = {"name": "net", "workloads": [ORDER | {"calls": 2}], "for_device": "NVIDIA T4"}
    made = client.post("/models", json=order)
    assert made.status_code == 201, made.text
    [layer] = made.json()["layers"]
    assert (made.json()["for_device"], layer["best"]) == ("NVIDIA T4", None)
    assert layer["links"]["best"].endswith("device=NVIDIA+T4")
    assert client.get(layer["links"]["job"]).json()["for_device"] == "NVIDIA T4"
    page = client.get(f"/ui/models/{made.json()['id']}", headers=HTML).text
    assert "<dt>Device</dt><dd>NVIDIA T4</dd>" in page
    assert '<td data-label="Device">NVIDIA T4</td>' in client.get("/ui/models", headers=HTML).text
