"""A job says if no living worker can take it; a 404 of GET /best names the job to wait for."""

import json
from typing import Any

from problem_shape import problem
from service_rows import GPU, HOST, running
from sqlalchemy import Engine
from starlette.testclient import TestClient

from db import queue
from db.fleet import devices, workers

ORDER = {"operator": "conv1d", "workload": {"M": 100, "N": 3}, "target": "cuda"}
BEST = "/best/conv1d?M=100&N=3"
HTML = {"accept": "text/html"}


def beat(engine: Engine, name: str, fingerprint: dict[str, Any]) -> None:
    """Register a worker on a device, alive and without a job."""
    on = devices.upsert_device(engine, fingerprint).id
    workers.beat(engine, name, host="here", pid=7, device_id=on, version="0.1.0", job_id=None)


def test_job_says_that_no_worker_can_take_it(client: TestClient, engine: Engine) -> None:
    beat(engine, "a", HOST)
    job = client.post("/jobs", json=ORDER).json()
    assert "no living worker has a cuda device" in job["waiting"]
    path = job["links"]["self"]
    assert client.get(path).json()["waiting"] == job["waiting"]
    assert client.get("/jobs").json()["items"][0]["waiting"] == job["waiting"]
    for page in (f"/ui/jobs/{job['id']}", f"/ui/jobs/{job['id']}/live"):
        assert "Waiting: no living worker has a cuda device" in client.get(page, headers=HTML).text
    beat(engine, "b", GPU)
    assert client.get(path).json()["waiting"] is None
    assert "Waiting:" not in client.get(f"/ui/jobs/{job['id']}", headers=HTML).text


def test_event_stream_says_why_the_job_waits(client: TestClient, engine: Engine) -> None:
    job = client.post("/jobs", json=ORDER).json()
    with client.stream("GET", job["links"]["events"]) as stream:
        lines = stream.iter_lines()
        data = next(line for line in lines if line.startswith("data: "))
        queue.cancel(engine, job["id"])
        for _ in lines:  # the stream ends with the job
            pass
    assert "no worker is alive" in json.loads(data.removeprefix("data: "))["waiting"]


def test_404_of_a_best_names_the_queued_job(client: TestClient, engine: Engine) -> None:
    assert "job" not in problem(client.get(BEST), 404, "not-tuned")
    job = client.post("/jobs", json=ORDER).json()
    document = problem(client.get(BEST), 404, "not-tuned")
    named = document["job"]
    assert (named["id"], named["state"]) == (job["id"], "queued")
    assert client.get(named["url"]).json()["id"] == job["id"]
    assert f"the job {job['id']} is queued; no worker is alive" in document["detail"]
    assert document["tune"]["url"] == "/jobs"
    assert "job" not in problem(client.get(f"{BEST}&target=cpu"), 404, "not-tuned")
    nearest = problem(client.get(f"{BEST}&match=nearest"), 404, "not-tuned")
    assert nearest["job"]["id"] == job["id"]
    page = client.get("/ui/best/conv1d?M=100&N=3", headers=HTML)
    assert page.status_code == 404
    assert f"/ui/jobs/{job['id']}" in page.text and "is queued" in page.text


def test_404_of_a_best_names_the_running_job(client: TestClient, engine: Engine) -> None:
    job = running(engine, "conv1d", {"M": 100, "N": 3})
    document = problem(client.get(BEST), 404, "not-tuned")
    assert document["job"] == {
        "id": job.id, "state": "running", "url": f"/jobs/{job.id}", "waiting": None
    }  # fmt: skip
    assert f"the job {job.id} is running; ask again" in document["detail"]
