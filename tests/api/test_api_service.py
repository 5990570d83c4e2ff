"""Operators, workers, the index, readiness, metrics, internal errors and request ids."""

import re
from typing import Any

import pytest
from fastapi import FastAPI
from problem_shape import problem
from prometheus_client.parser import text_string_to_metric_families
from service_rows import GPU, HOST, tuned
from sqlalchemy import Engine, update
from starlette.testclient import TestClient

from db.fleet import devices, workers
from db.sql.engine import writing
from db.sql.tables import metadata
from db.sql.tables import workers as rows_of_workers
from templates import operators
from templates.workload import Workload


def test_operators_are_listed_with_working_examples(client: TestClient) -> None:
    page = client.get("/operators").json()
    assert page["next_cursor"] is None
    assert [each["name"] for each in page["items"]] == [each.name for each in operators()]
    for each in page["items"]:
        assert client.get(each["links"]["self"]).json() == each
        assert set(each["templates"]) == {"cpu", "cuda"}
        assert all(each["templates"].values())
        order = {"operator": each["name"], "workload": each["example"]}
        assert client.post("/jobs", json=order).status_code == 201


def test_an_operator_says_its_limits_and_defaults(client: TestClient) -> None:
    conv1d = client.get("/operators/conv1d").json()
    assert conv1d["workload_schema"]["required"] == ["M", "N"]
    assert conv1d["workload_schema"]["additionalProperties"] is False
    assert conv1d["limits"]["M"] == {"minimum": 1, "maximum": 2**24}
    assert conv1d["limits"]["mode"] == {"enum": ["full", "same", "valid", "causal"]}
    assert conv1d["limits"]["dtype"] == {"enum": ["float32", "float16", "bfloat16"]}
    assert conv1d["defaults"] == {
        "mode": "full",
        "kind": "convolve",
        "dtype": "float32",
        "max_error": 1e-5,
        "bias": False,
        "residual": False,
        "activation": "none",
        **{"B": 1, "C": 1, "stride": 1, "dilation": 1, "layout": "NCW"},
        "gated": False,
        "direction": "forward",
    }
    assert conv1d["limits"]["stride"] == {"minimum": 1, "maximum": 2**16}


def test_no_workload_field_has_the_name_of_a_filter_of_best() -> None:
    fields = {name for each in operators() for name in each.workload.model_fields}
    assert not fields & {"target", "device", "match"}
    assert all(issubclass(each.workload, Workload) for each in operators())


def test_workers_are_listed_with_device_and_job(client: TestClient, engine: Engine) -> None:
    assert client.get("/workers").json() == {"items": [], "next_cursor": None}
    device = devices.upsert_device(engine, GPU)
    job = "0" * 32
    said = {"host": "here", "pid": 7, "version": "0.1.0"}
    workers.beat(engine, "worker-1", device_id=device.id, job_id=job, **said)
    workers.beat(engine, "worker-2", device_id=None, job_id=None, **said)
    first, second = client.get("/workers").json()["items"]
    assert (first["name"], first["alive"], first["job"]) == ("worker-1", True, job)
    assert first["device"] == {"kind": "cuda", "name": "Test GPU", "arch": "sm_90"}
    assert (second["device"], second["job"]) == (None, None)


def test_the_index_names_every_route(client: TestClient) -> None:
    index = client.get("/").json()
    assert index["service"] == "convtune"
    assert {"POST /jobs", "GET /best/conv1d", "GET /artifacts/{sha256}"} <= set(index["routes"])


def test_service_is_ready_only_with_its_own_schema(client: TestClient, engine: Engine) -> None:
    assert client.get("/readyz").json() == client.get("/healthz").json() == {"status": "ok"}
    with writing(engine) as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    problem(client.get("/readyz"), 503, "schema-mismatch")
    assert client.get("/healthz").status_code == 200


def test_routes_answer_503_if_the_database_does_not_answer(
    client: TestClient, engine: Engine
) -> None:
    with writing(engine) as connection:
        metadata.drop_all(connection)
    for path in ("/jobs", "/metrics", "/workers"):
        response = client.get(path)
        problem(response, 503, "database-unavailable")
        assert int(response.headers["retry-after"]) > 0
        assert "SELECT" not in response.text


@pytest.mark.parametrize("table", ["workers", "api_keys"])
def test_page_shows_503_if_the_database_does_not_answer(
    client: TestClient, engine: Engine, table: str
) -> None:
    """The page reads the workers; before that, the keys are read."""
    with writing(engine) as connection:
        connection.exec_driver_sql(f"DROP TABLE {table}")
    answer = client.get("/ui/devices", headers={"accept": "text/html"})
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("text/html")
    assert int(answer.headers["retry-after"]) > 0
    assert "The database did not answer; try again shortly." in answer.text


def test_order_gets_503_if_the_disk_of_the_database_is_full(
    client: TestClient, engine: Engine
) -> None:
    with engine.connect() as connection:  # the pool's only one, which is used again
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
    order: dict[str, Any] = {"operator": "conv1d", "workload": {"M": 100, "N": 3}}
    while (response := client.post("/jobs", json=order)).status_code == 201:
        order["workload"]["M"] += 1
    found = problem(response, 503, "database-full")
    assert "make room" in found["detail"]
    assert "sqlite" not in response.text
    form = {"operator": "conv1d", "workload.M": "99", "workload.N": "3"}
    shown = client.post("/ui/jobs", data=form, headers={"sec-fetch-site": "same-origin"})
    assert (shown.status_code, "must make room" in shown.text) == (503, True)


def test_unexpected_exception_gets_500_without_its_text(app: FastAPI, client: TestClient) -> None:
    def fails() -> None:
        raise ZeroDivisionError("a secret of the inside")

    app.add_api_route("/fails", fails)
    response = client.get("/fails")
    document = problem(response, 500, "internal-error")
    assert document["request_id"] in document["detail"]
    assert "secret" not in response.text


def samples_of(client: TestClient) -> dict[tuple[str, ...], float]:
    """Return the metrics' values by name and by the sorted values of their labels."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }


def test_the_metrics_count_living_workers(client: TestClient, engine: Engine) -> None:
    gpu, host = (devices.upsert_device(engine, each).id for each in (GPU, HOST))
    said: dict[str, Any] = {"host": "here", "pid": 7, "version": "0.1.0"}
    assert samples_of(client)["convtune_workers", "cpu", "waiting"] == 0
    for name, device, job in (("a", gpu, None), ("b", gpu, "0" * 32), ("c", host, None)):
        workers.beat(engine, name, device_id=device, job_id=job, **said)
    workers.beat(engine, "d", device_id=gpu, job_id=None, **said)
    with writing(engine) as connection:
        silent = update(rows_of_workers).where(rows_of_workers.c.name == "d").values(seen_at=0.0)
        connection.execute(silent)
    samples = samples_of(client)
    assert samples["convtune_workers", "cuda", "working"] == 1
    assert samples["convtune_workers", "cuda", "waiting"] == 1
    assert samples["convtune_workers", "cpu", "waiting"] == 1
    assert samples["convtune_workers", "cpu", "working"] == 0


def test_metrics_count_jobs_trials_and_requests(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", {"M": 10, "N": 3})
    client.post("/jobs", json={"operator": "conv1d", "workload": {"M": 100, "N": 3}})
    client.get("/jobs/" + "0" * 32)
    client.get("/nowhere/1")
    samples = samples_of(client)
    assert samples["convtune_jobs", "queued"] == 1
    assert samples["convtune_jobs", "succeeded"] == 1
    assert samples["convtune_jobs", "failed"] == 0
    assert 0 <= samples["convtune_queue_age_seconds",] < 60
    assert samples["convtune_trials_total", "ok"] == 2
    assert samples["convtune_trials_total", "wrong_answer"] == 0
    assert samples["convtune_trial_seconds_total", "build", "ok"] == pytest.approx(0.4)
    assert samples["convtune_event_streams",] == 0
    assert samples["convtune_http_request_seconds_count", "/jobs", "201", "POST"] == 1
    assert samples["convtune_http_request_seconds_count", "/jobs/{job_id}", "404", "GET"] == 1
    assert samples["convtune_http_request_seconds_count", "404", "GET", "unmatched"] == 1


@pytest.mark.parametrize("given", ["abc-1.2_X", "0" * 128])
def test_a_request_id_is_kept(client: TestClient, given: str) -> None:
    assert client.get("/jobs", headers={"X-Request-ID": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "two words", "0" * 129, "a\tb", "é".encode()])
def test_a_malformed_request_id_is_replaced(client: TestClient, given: str | bytes) -> None:
    answered = client.get("/jobs", headers={"X-Request-ID": given}).headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", answered)
