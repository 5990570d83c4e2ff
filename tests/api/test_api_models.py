"""Ordering, listing, reading and cancelling models over HTTP."""

import json
from typing import Any

import pytest
from fastapi import FastAPI
from problem_shape import problem
from service_rows import rows, running, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from api.main import create_app
from api.middleware.body_limit import MAX_BODY_BYTES, MAX_MODEL_BYTES
from api.settings import Settings
from db import queue
from db.contract.model import MAX_CALLS
from templates import operator

SIGNAL = {"operator": "conv1d", "workload": {"M": 16384, "N": 32}}
IMAGE = {
    "operator": "depthwise_conv2d",
    "workload": {"B": 1, "C": 8, "H": 16, "W": 16, "K": 3},
    "calls": 3,
}
ORDER: dict[str, Any] = {"name": "net", "workloads": [SIGNAL, IMAGE], "trials": 48}


def ordered(client: TestClient, **changes: Any) -> dict[str, Any]:
    response = client.post("/models", json=ORDER | changes)
    assert response.status_code == 201, response.text
    model: dict[str, Any] = response.json()
    return model


def test_an_order_becomes_a_model_with_its_jobs(client: TestClient) -> None:
    response = client.post("/models", json=ORDER | {"patience": 9, "label": "nightly"})
    model = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"/models/{model['id']}" == model["links"]["self"]
    assert client.get(response.headers["location"]).json() == model
    assert (model["name"], model["state"], model["target"]) == ("net", "queued", "auto")
    assert (model["trials"], model["patience"], model["label"]) == (48, 9, "nightly")
    assert model["progress"] == {
        "trials": {"requested": 96, "measured": 0},
        "jobs": {"ended": 0, "all": 2},
    }
    assert model["time"] == {"tuned_us": None, "baseline_us": None, "gain": None, "layers": 0}
    assert (model["eta_seconds"], model["finished_at"]) == (None, None)
    first, second = model["layers"]
    assert (first["operator"], first["calls"], second["calls"]) == ("conv1d", 1, 3)
    assert second["workload"]["layout"] == "NCHW"  # defaults are filled in
    job = client.get(first["links"]["job"]).json()
    assert (job["id"], job["state"]) == (first["job"], first["state"])
    assert (job["trials"]["requested"], job["patience"], job["label"]) == (48, 9, "nightly")
    assert client.get(first["links"]["best"]).status_code == 404


def test_equal_workloads_are_merged(client: TestClient) -> None:
    spelt_out = {"operator": "conv1d", "workload": SIGNAL["workload"] | {"mode": "full"}}
    model = ordered(client, workloads=[SIGNAL, IMAGE, spelt_out | {"calls": 4}])
    assert [layer["calls"] for layer in model["layers"]] == [5, 3]


def test_tuned_layer_shares_its_job_and_the_model_shows_the_gain(
    client: TestClient, engine: Engine
) -> None:
    baselines = [
        {"name": "pytorch NCHW", "time_us": 12.0, "speedup": 4.0},
        {"name": "pytorch NHWC", "time_us": 1.0, "speedup": 0.3},
    ]
    job = tuned(
        engine, IMAGE["operator"], IMAGE["workload"], time_us=3.0, baselines=baselines
    )  # fmt: skip
    model = ordered(client, trials=2)
    waiting, done = model["layers"]
    assert (done["job"], done["state"], waiting["state"]) == (job.id, "succeeded", "queued")
    assert done["best"]["peer"] == {"name": "pytorch NCHW", "time_us": 12.0, "speedup": 4.0}
    assert done["best"]["device"]["kind"] == "cuda"
    assert model["time"] == {"tuned_us": 9.0, "baseline_us": 36.0, "gain": 4.0, "layers": 1}
    best = client.get(done["links"]["best"]).json()
    assert (best["time_us"], best["config"]) == (3.0, done["best"]["config"])
    anew = ordered(client, trials=2, on_existing="retune")
    assert anew["layers"][1]["job"] != job.id


def test_best_links_of_layers_repeat_target_and_templates(client: TestClient) -> None:
    model = ordered(client, workloads=[SIGNAL], target="cpu", templates=["direct"])
    link = model["layers"][0]["links"]["best"]
    assert link.endswith("&target=cpu&templates=direct")
    assert client.get(link).json()["type"] == "urn:convtune:problem:not-tuned"


def test_idempotency_key_gets_the_same_model(client: TestClient) -> None:
    key = {"Idempotency-Key": "a-key"}
    first = client.post("/models", json=ORDER, headers=key)
    again = client.post("/models", json=ORDER, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["location"] == first.headers["location"]
    other = client.post("/models", json=ORDER | {"name": "other"}, headers=key)
    problem(other, 422, "idempotency-conflict", "Idempotency-Key")
    alone = client.post("/jobs", json=SIGNAL, headers=key)
    problem(alone, 422, "idempotency-conflict", "Idempotency-Key")


def test_models_are_listed_newest_first_in_pages(client: TestClient) -> None:
    made = [ordered(client, name=f"net {n}")["id"] for n in range(3)]
    first = client.get("/models?limit=2").json()
    rest = client.get(f"/models?limit=2&cursor={first['next_cursor']}").json()
    items = [*first["items"], *rest["items"]]
    assert [item["id"] for item in items] == made[::-1]
    assert rest["next_cursor"] is None
    assert "layers" not in items[0]
    assert client.get(items[0]["links"]["self"]).json()["name"] == "net 2"
    jobs = client.get("/jobs?limit=1").json()["next_cursor"]
    problem(client.get(f"/models?cursor={jobs}"), 422, "invalid-cursor", "cursor")


def test_cancelling_a_model_keeps_jobs_that_were_ordered_otherwise(
    client: TestClient, engine: Engine
) -> None:
    shared = client.post("/jobs", json=SIGNAL | {"trials": 48}).json()
    model = ordered(client)
    response = client.post(model["links"]["cancel"])
    assert response.status_code == 202
    cancelled = response.json()
    assert (cancelled["state"], cancelled["finished_at"] is None) == ("cancelled", False)
    assert [layer["state"] for layer in cancelled["layers"]] == ["queued", "cancelled"]
    assert queue.get(engine, shared["id"]).cancel_requested is False
    problem(client.post(model["links"]["cancel"]), 409, "model-ended")


def test_model_state_follows_its_jobs(client: TestClient, engine: Engine) -> None:
    model = ordered(client, workloads=[SIGNAL])
    job = queue.claim(engine, "worker-1", ["cuda"])
    assert job is not None
    queue.progress(
        engine, job.id, job.attempt,
        measured=20, ok=20, failed=0, best=None, eta_seconds=7.5, device_id=None,
    )  # fmt: skip
    now = client.get(model["links"]["self"]).json()
    assert (now["state"], now["eta_seconds"]) == ("running", 7.5)
    assert now["progress"]["trials"] == {"requested": 48, "measured": 20}
    queue.finish(engine, job.id, job.attempt, "failed", "no luck")
    assert client.get("/models").json()["items"][0]["state"] == "failed"


@pytest.mark.parametrize("path", ["/models/nothing", f"/models/{'0' * 32}"])
def test_unknown_model_gets_404(client: TestClient, path: str) -> None:
    problem(client.get(path), 404, "unknown-model")
    problem(client.post(f"{path}/cancel"), 404, "unknown-model")


def bad(place: int, **changes: Any) -> dict[str, Any]:
    """Return an order of four workloads in which the one at ``place`` has a fault."""
    layers = [SIGNAL | {"workload": {"M": 100 + n, "N": 3}} for n in range(4)]
    layers[place] = IMAGE | changes
    return ORDER | {"workloads": layers}


def shape(**changes: Any) -> dict[str, Any]:
    return {"workload": {**IMAGE["workload"], **changes}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (bad(3, **shape(K=65)), "workloads.3.workload.K", "must be at most 63, but is 65"),
        (bad(1, **shape(K=None)), "workloads.1.workload.K", "both KH and KW"),
        (bad(1, **shape(L=1)), "workloads.1.workload.L", "remove it"),
        (bad(2, **shape(B=2**15, C=2**15)), "workloads.2.workload.B", "2^31 bytes"),
        (bad(0, operator="conv3d"), "workloads.0.operator", "'conv1d', 'depthwise_conv2d'"),
        (bad(3, operator=None), "workloads.3.operator", "must be one of"),
        (bad(3, workload=[1]), "workloads.3.workload", "JSON object"),
        (bad(3, calls=0), "workloads.3.calls", "must be at least 1, but is 0"),
        (bad(3, calls=MAX_CALLS + 1), "workloads.3.calls", "must be at most 1000000"),
        (bad(3, calls=1.5), "workloads.3.calls", "integer"),
        (bad(3, trials=5), "workloads.3.trials", "did you mean trials, beside workloads?"),
        (ORDER | {"workloads": [SIGNAL, 5]}, "workloads.1", "JSON object"),
        (ORDER | {"workloads": []}, "workloads", "must have at least 1 item(s)"),
        (ORDER | {"workloads": [SIGNAL] * 257}, "workloads", "must have at most 256 items"),
        (ORDER | {"workloads": SIGNAL}, "workloads", "must be a list"),
        ({"name": "net"}, "workloads", "required"),
        ({"workloads": [SIGNAL]}, "name", "required"),
        (ORDER | {"name": ""}, "name", "at least 1 character"),
        (ORDER | {"name": "x" * 201}, "name", "at most 200 characters"),
        (ORDER | {"name": "  "}, "name", "must have more than blanks in it"),
        (ORDER | {"name": "two\nlines"}, "name", r"must not have '\n' in it"),
        (ORDER | {"trials": 0}, "trials", "must be at least 1, but is 0"),
        (ORDER | {"operator": "conv1d"}, "operator", "remove it"),
        (ORDER | {"conv1d": 1}, "conv1d", "remove it"),
        (ORDER | {"templates": ["fft"]}, "templates", "but depthwise_conv2d has no such template"),
        (ORDER | {"templates": ["warpgroup"], "workloads": [SIGNAL], "target": "cpu"},
         "templates", "but conv1d on cpu has no such template"),
        (ORDER | {"templates": ["channels"], "search": "metaschedule"},
         "templates", "order another search"),
        (ORDER | {"templates": []}, "templates", "must have at least 1 item(s)"),
    ],
)  # fmt: skip
def test_one_fault_refuses_the_whole_model(
    client: TestClient, engine: Engine, body: Any, field: str, says: str
) -> None:
    """A fault in one layer or term refuses the whole order, names the field and writes nothing."""
    before = rows(engine)
    document = problem(client.post("/models", json=body), 422, "invalid-request", field)
    assert says in document["detail"]
    assert rows(engine) == before


def test_model_with_256_layers_is_accepted(client: TestClient) -> None:
    """An order of 256 layers with all fields given and indented keeps the limit of a body."""
    workload = operator("depthwise_conv2d").workload
    shapes = [
        workload.model_validate(IMAGE["workload"] | {"H": 16 + n}).model_dump() for n in range(256)
    ]
    layers = [{"operator": "depthwise_conv2d", "workload": each} for each in shapes]
    body = json.dumps(ORDER | {"workloads": layers, "name": "x" * 200}, indent=2)
    assert MAX_BODY_BYTES < len(body) < MAX_MODEL_BYTES
    response = client.post("/models", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 201, response.text
    assert len(response.json()["layers"]) == 256
    too_much = body.encode().ljust(MAX_MODEL_BYTES + 1)
    problem(client.post("/models", content=too_much), 413, "body-too-large")


def test_quota_counts_the_jobs_of_a_model(database_url: str) -> None:
    """The quota counts the jobs that a model would make, not the model."""
    limited: FastAPI = create_app(Settings(database_url=database_url, max_unfinished_jobs=2))
    with TestClient(limited) as client:
        ordered(client)
        again = ordered(client, name="the same jobs")
        assert again["progress"]["jobs"]["all"] == 2
        more = [SIGNAL | {"workload": {"M": 50 + n, "N": 3}} for n in range(2)]
        before = rows(limited.state.engine)
        answer = client.post("/models", json=ORDER | {"workloads": more})
        document = problem(answer, 429, "too-many-jobs")
        assert "at most 2 jobs" in document["detail"]
        assert "this would make 2" in document["detail"]
        assert rows(limited.state.engine) == before


def test_model_shares_a_running_job(client: TestClient, engine: Engine) -> None:
    job = running(engine, "conv1d", {"M": 16384, "N": 32}, trials=48, on_existing="reuse")
    model = ordered(client)
    assert (model["layers"][0]["job"], model["state"]) == (job.id, "running")
