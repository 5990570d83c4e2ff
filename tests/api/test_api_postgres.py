"""One pass over the routes on PostgreSQL; the rest is tested in tests/db on both engines."""

import re

from problem_shape import problem
from service_rows import tuned
from starlette.testclient import TestClient

from api.main import create_app
from api.settings import Settings


def test_routes_work_on_postgresql(postgres_url: str) -> None:
    app = create_app(Settings(database_url=postgres_url))
    with TestClient(app) as client:
        done = tuned(app.state.engine, "conv1d", {"M": 100, "N": 3})
        assert client.get("/readyz").status_code == 200
        order = {"operator": "conv1d", "workload": {"M": 101, "N": 3}}
        made = client.post("/jobs", json=order, headers={"Idempotency-Key": "k"})
        assert made.status_code == 201
        assert client.post("/jobs", json=order).status_code == 200
        best = client.get(client.get(f"/jobs/{done.id}").json()["links"]["best"]).json()
        assert best["job"] == done.id
        assert client.get(best["artifacts"]["library"]["url"]).status_code == 200
        near = client.get("/best/conv1d?M=101&N=3&match=nearest").json()
        assert near["neighbour"]["workload"]["M"] == 100
        for path in ("/jobs?limit=1", f"/jobs/{done.id}/trials", "/workers"):
            assert client.get(path).json()["items"] is not None
        log = client.get("/records?of=bests").content
        typed = {"content-type": "application/x-ndjson"}
        assert client.post("/records", content=log, headers=typed).status_code == 201
        again = client.post("/records", content=log, headers=typed).json()
        assert again["jobs"][0]["created"] is False
        assert len(client.get("/records").text.splitlines()) == 2
        verify = near["verify"]
        assert client.post(verify["url"], json=verify["body"]).json()["search"] == "neighbour"
        told = client.get(f"/jobs/{done.id}/events").text
        assert re.findall("event: (.*)", told) == ["trial", "best", "trial", "progress", "state"]
        assert 'convtune_jobs{state="succeeded"} 1.0' in client.get("/metrics").text
        assert client.post(made.json()["links"]["cancel"]).status_code == 202
        problem(client.get("/jobs/%00"), 404, "unknown-job")
        problem(client.get("/best/conv1d?M=5&N=3&device=%00%ED%A0%80"), 404, "not-tuned")
        problem(client.get("/jobs?cursor=x"), 422, "invalid-cursor", "cursor")
