"""Ordering, listing, reading and cancelling jobs over HTTP."""

from typing import Any

import pytest
from problem_shape import problem
from service_rows import GPU, new_trial, running, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from db import queue
from db.fleet import devices
from db.queue import history
from db.results import trials

ORDER = {"operator": "conv1d", "workload": {"M": 16384, "N": 32}, "trials": 48}


def ordered(client: TestClient, **changes: Any) -> dict[str, Any]:
    response = client.post("/jobs", json=ORDER | changes)
    assert response.status_code == 201, response.text
    job: dict[str, Any] = response.json()
    return job


PLAIN = {"bias": False, "residual": False, "activation": "none"}


def test_an_order_becomes_a_queued_job_with_defaults_filled_in(client: TestClient) -> None:
    response = client.post("/jobs", json=ORDER)
    job = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"/jobs/{job['id']}" == job["links"]["self"]
    assert job["state"] == "queued"
    assert job["workload"] == {
        "M": 16384,
        "N": 32,
        "mode": "full",
        "kind": "convolve",
        "dtype": "float32",
        "max_error": 1e-5,
        **PLAIN,
        **{"B": 1, "C": 1, "stride": 1, "dilation": 1, "layout": "NCW"},
        "gated": False,
        "direction": "forward",
    }
    assert (job["target"], job["search"], job["on_existing"]) == ("auto", "xgb", "reuse")
    assert job["trials"] == {"requested": 48, "measured": 0, "ok": 0, "failed": 0}
    assert (job["device"], job["best"], job["finished_at"]) == (None, None, None)
    assert job["created_at"].endswith("Z")
    assert client.get(response.headers["location"]).json() == job


def test_each_link_of_a_job_is_a_route(client: TestClient, engine: Engine) -> None:
    links = client.get(f"/jobs/{tuned(engine, 'conv1d', {'M': 100, 'N': 3}).id}").json()["links"]
    assert set(links) == {"self", "trials", "events", "cancel", "best"}
    stream = client.get(links["events"])
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert "event: state" in stream.text
    answers = {name: client.get(links[name]).status_code for name in ("self", "trials", "best")}
    assert answers == {"self": 200, "trials": 200, "best": 200}
    problem(client.post(links["cancel"]), 409, "job-ended")


def test_job_shows_its_patience_and_warm_start(client: TestClient, engine: Engine) -> None:
    usual = ordered(client)
    assert usual["patience"] is None
    assert usual["warm_start"] == {"enabled": True, "jobs": None, "trials": None}
    cold = ordered(client, patience=20, warm_start=False)
    assert cold["patience"] == 20
    assert cold["warm_start"] == {"enabled": False, "jobs": None, "trials": None}
    job = queue.claim(engine, "worker-1", ["cuda"], job_id=usual["id"])
    assert job is not None
    history.note_warm_start(engine, job.id, job.attempt, from_jobs=2, from_trials=128)
    shown = client.get(usual["links"]["self"]).json()
    assert shown["warm_start"] == {"enabled": True, "jobs": 2, "trials": 128}


def test_depthwise_order_gets_the_defaults_of_its_operator(client: TestClient) -> None:
    shape = {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7}
    job = ordered(client, operator="depthwise_conv2d", workload=shape)
    usual = {"stride": 1, "dilation": 1, "multiplier": 1, "layout": "NCHW"}
    usual |= {"dtype": "float32", "max_error": 1e-5, "direction": "forward", **PLAIN}
    assert job["workload"] == shape | usual


def test_an_equal_order_gets_the_same_job(client: TestClient) -> None:
    first = ordered(client)
    spelled_out = ORDER | {"workload": {"N": 32, "M": 16384, "mode": "full"}, "search": "xgb"}
    again = client.post("/jobs", json=spelled_out)
    assert (again.status_code, again.json()) == (200, first)
    assert again.headers["location"] == first["links"]["self"]
    assert ordered(client, seed=1)["id"] != first["id"]


def test_reuse_answers_with_the_job_that_succeeded(client: TestClient, engine: Engine) -> None:
    done = tuned(engine, "conv1d", {"M": 16384, "N": 32})
    enough = client.post("/jobs", json=ORDER | {"trials": 2})
    assert (enough.status_code, enough.json()["id"]) == (200, done.id)
    assert enough.json()["state"] == "succeeded"
    assert ordered(client, trials=3)["id"] != done.id
    assert ordered(client, trials=2, on_existing="retune")["id"] != done.id


def test_an_idempotency_key_gets_one_job(client: TestClient) -> None:
    key = {"Idempotency-Key": "one-order"}
    first = client.post("/jobs", json=ORDER, headers=key)
    client.post(first.json()["links"]["cancel"])
    again = client.post("/jobs", json=ORDER, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    other = client.post("/jobs", json=ORDER | {"trials": 49}, headers=key)
    problem(other, 422, "idempotency-conflict", "Idempotency-Key")


@pytest.mark.parametrize("key", ["", "k" * 256, "two words", "é".encode()])
def test_a_malformed_idempotency_key_is_refused(client: TestClient, key: str | bytes) -> None:
    response = client.post("/jobs", json=ORDER, headers={"Idempotency-Key": key})
    problem(response, 422, "invalid-request", "Idempotency-Key")
    assert client.get("/jobs").json()["items"] == []


def test_jobs_are_listed_newest_first_in_pages(client: TestClient) -> None:
    made = [ordered(client, seed=seed)["id"] for seed in range(5)]
    seen, cursor = [], ""
    while cursor is not None:
        page = client.get("/jobs", params={"limit": 2, "cursor": cursor}).json()
        assert len(page["items"]) <= 2
        seen += [job["id"] for job in page["items"]]
        cursor = page["next_cursor"]
    assert seen == made[::-1]


def test_jobs_are_filtered_by_state_and_operator(client: TestClient) -> None:
    first, second = ordered(client, seed=1), ordered(client, seed=2)
    client.post(first["links"]["cancel"])

    def ids(query: str) -> list[str]:
        return [job["id"] for job in client.get(f"/jobs?{query}").json()["items"]]

    assert ids("state=queued") == [second["id"]]
    assert ids("state=cancelled&operator=conv1d") == [first["id"]]
    assert ids("operator=depthwise_conv2d") == []
    assert ids("state=&operator=&limit=&cursor=") == [second["id"], first["id"]]


def test_a_running_job_shows_how_far_it_is(client: TestClient, engine: Engine) -> None:
    device = devices.upsert_device(engine, GPU)
    job = running(engine, "conv1d", {"M": 100, "N": 3})
    best = {"config": {"template": "direct", "threads": 64}, "time_us": 2.5, "gflops": 1.0}
    queue.progress(
        engine,
        job.id,
        job.attempt,
        measured=7,
        ok=5,
        failed=2,
        best=best,
        eta_seconds=3.5,
        device_id=device.id,
    )
    shown = client.get(f"/jobs/{job.id}").json()
    assert shown["state"] == "running"
    assert shown["device"] == {"kind": "cuda", "name": "Test GPU", "arch": "sm_90"}
    assert shown["trials"] == {"requested": 2, "measured": 7, "ok": 5, "failed": 2}
    assert (shown["best"], shown["eta_seconds"], shown["attempt"]) == (best, 3.5, 1)
    assert client.get("/jobs").json()["items"] == [shown]


def test_cancel_ends_a_queued_job_and_is_requested_of_a_running_one(
    client: TestClient, engine: Engine
) -> None:
    queued = ordered(client)
    cancelled = client.post(queued["links"]["cancel"])
    assert (cancelled.status_code, cancelled.json()["state"]) == (202, "cancelled")
    document = problem(client.post(queued["links"]["cancel"]), 409, "job-ended")
    assert queued["id"] in document["detail"]
    job = running(engine, "conv1d", {"M": 100, "N": 3})
    asked = client.post(f"/jobs/{job.id}/cancel")
    assert asked.status_code == 202
    assert (asked.json()["state"], asked.json()["cancel_requested"]) == ("running", True)


def test_trials_of_a_job_are_paged_and_filtered(client: TestClient, engine: Engine) -> None:
    device = devices.upsert_device(engine, GPU)
    job = running(engine, "conv1d", {"M": 100, "N": 3})
    broken = {"status": "run_error", "time_us": None, "timing": None, "error": "a \0 in it"}
    log = [new_trial(device, 1), new_trial(device, 2, **broken), new_trial(device, 3)]
    trials.add(engine, job.id, job.attempt, log)
    url = f"/jobs/{job.id}/trials"
    first = client.get(f"{url}?limit=2").json()
    rest = client.get(url, params={"cursor": first["next_cursor"]}).json()
    assert [trial["number"] for trial in first["items"] + rest["items"]] == [1, 2, 3]
    assert rest["next_cursor"] is None
    only = client.get(f"{url}?status=run_error").json()["items"]
    assert [(trial["number"], trial["time_us"]) for trial in only] == [(2, None)]
    assert first["items"][0]["config"] == {"template": "direct", "threads": 1}
    assert first["items"][0]["seconds"] == log[0].seconds


@pytest.mark.parametrize("name", ["0" * 32, "nothing", "%00", "%ED%A0%80", "a" * 3000])
def test_unknown_job_gets_404(client: TestClient, name: str) -> None:
    for response in (
        client.get(f"/jobs/{name}"),
        client.get(f"/jobs/{name}/trials"),
        client.post(f"/jobs/{name}/cancel"),
    ):
        assert "no job" in problem(response, 404, "unknown-job")["detail"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=ten", "limit"),
        ("state=done", "state"),
        ("operator=conv3d", "operator"),
        ("stat=queued", "stat"),
        ("state=queued&state=running", "state"),
        ("cursor=" + "a" * 513, "cursor"),
    ],
)
def test_invalid_listing_query_is_refused_with_its_field(
    client: TestClient, query: str, field: str
) -> None:
    problem(client.get(f"/jobs?{query}"), 422, "invalid-request", field)


@pytest.mark.parametrize("cursor", ["x", "%00", "WyJ0cmlhbHMiLDFd", "WyJqb2JzIiwtMV0"])
def test_invalid_cursor_is_refused(client: TestClient, cursor: str) -> None:
    problem(client.get(f"/jobs?cursor={cursor}"), 422, "invalid-cursor", "cursor")
