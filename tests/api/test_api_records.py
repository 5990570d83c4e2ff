"""GET /records exports logs in every format; POST /records imports logs as orders."""

import json
from datetime import datetime
from typing import Any

import pytest
from problem_shape import problem
from service_rows import GPU, HOST, new_trial, rows, running, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from api.main import create_app
from api.settings import Settings
from db import queue
from db.fleet import devices
from db.queue import Job
from db.records import formats, listed, records
from db.results import best, trials
from db.results.artifacts import NewArtifact
from db.sql.transaction import writing
from tests.foreign_logs import TOPHUB, UNUSABLE, depthwise

TYPE = {"content-type": "application/x-ndjson"}
FAILURES = {
    "schedule_error": ("compile", 1),
    "build_error": ("compile", 2),
    "build_timeout": ("timeout", 6),
    "run_error": ("runtime", 4),
    "run_timeout": ("timeout", 7),
    "wrong_answer": ("correctness", 5),
    "skipped": ("constraints", 8),
    "machine_error": ("runtime", 8),
}


def lines(client: TestClient, query: str = "") -> list[Any]:
    """Return the lines of an exported log."""
    response = client.get(f"/records{query}")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/x-ndjson")
    assert response.text == "" or response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def failed(engine: Engine, count: int = 1, **changes: Any) -> Job:
    """Store a failed job, with ``count`` trials for each status of failure and without a best."""
    device = devices.upsert_device(engine, GPU)
    job = running(engine, "conv1d", {"M": 50, "N": 5})
    new = [
        new_trial(device, 1000 * place + n, status=status, time_us=None, timing=None, error="no")
        for n in range(count)
        for place, status in enumerate(FAILURES)
    ]
    trials.add(engine, job.id, job.attempt, new)
    queue.finish(engine, job.id, job.attempt, "failed", "no")
    return job


def record(client: TestClient, engine: Engine) -> dict[str, Any]:
    """Return a line of a log that can be imported."""
    tuned(engine, "conv1d", {"M": 100, "N": 7}, HOST)
    [line] = lines(client, "?of=bests")
    return dict(line)


def post(client: TestClient, *records: Any) -> Any:
    """Import records, which are JSON values or lines of text."""
    text = "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records)
    return client.post("/records", content=text, headers=TYPE)


def test_convtune_log_has_every_fact_of_a_trial(client: TestClient, engine: Engine) -> None:
    job = tuned(engine, "conv1d", {"M": 100, "N": 7})
    first, second = lines(client)
    stored = trials.list_trials(engine, job.id).items
    assert [first["config"], second["config"]] == [trial.config for trial in stored]
    assert (first["convtune"], first["operator"], first["workload"]) == (1, "conv1d", job.workload)
    assert (first["target"], first["device"]) == ("cuda", {"name": "Test GPU", "arch": "sm_90"})
    assert (first["status"], first["time_us"], first["job"]) == ("ok", stored[0].time_us, job.id)
    assert first["seconds"] == stored[0].seconds
    assert datetime.fromisoformat(first["measured_at"]) == stored[0].created_at
    [best_of_all] = lines(client, "?of=bests")
    assert best_of_all["time_us"] == 1.5


def test_exported_log_is_filtered_by_the_query(client: TestClient, engine: Engine) -> None:
    gpu = tuned(engine, "conv1d", {"M": 100, "N": 7})
    tuned(engine, "conv1d", {"M": 100, "N": 7}, HOST)
    tuned(engine, "depthwise_conv2d", {"B": 1, "C": 1, "H": 8, "W": 8, "K": 3})
    failed(engine)
    assert len(lines(client)) == 14
    assert len(lines(client, "?operator=conv1d")) == 12
    assert len(lines(client, "?target=cpu")) == len(lines(client, "?device=Test CPU")) == 2
    assert len(lines(client, f"?job={gpu.id}")) == 2
    assert [each["status"] for each in lines(client, "?status=build_error")] == ["build_error"]
    assert len(lines(client, "?of=bests&status=ok&operator=&job=")) == 3
    assert lines(client, "?device=nobody's") == []
    problem(client.get(f"/records?job={'0' * 32}"), 404, "not-found")
    for field, value in {
        "operator": "conv3d", "format": "csv", "of": "all", "job": "x", "limit": "2",
    }.items():  # fmt: skip
        problem(client.get(f"/records?{field}={value}"), 422, "invalid-request", field)
    refusal = client.get("/records?format=metaschedule&of=trials")
    assert (
        "only a best keeps its record" in problem(refusal, 422, "invalid-request", "of")["detail"]
    )


def test_metaschedule_export_has_the_record_and_the_convtune_line(
    client: TestClient, engine: Engine
) -> None:
    halves = {"workload": ["17", "base64"], "tuning_record": [[], [1e-6], {}, []]}
    job = running(engine, "conv1d", {"M": 100, "N": 7})
    device = devices.upsert_device(engine, GPU)
    new = best.NewBest(
        operator="conv1d", workload_key=job.workload_key, workload=job.workload,
        device_id=device.id, template="direct", template_version=1, tvm_version="0.27.0",
        config={"template": "direct"}, time_us=1.0, timing={}, gflops=None, roofline={},
        max_error=None, baselines=[], trials_measured=0, versions={},
    )  # fmt: skip
    file = NewArtifact(json.dumps(halves).encode(), "record", "application/json")
    best.finish_with_bests(engine, job.id, job.attempt, [best.BestWithFiles(new, [file])])
    [line] = lines(client, "?format=metaschedule")
    assert {name: line[name] for name in halves} == halves
    assert line["convtune"] == lines(client, "?of=bests")[0]


def test_damaged_record_is_not_exported(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", {"M": 100, "N": 7})
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE artifacts SET content = x'00' WHERE kind = 'record'")
    problem(client.get("/records?format=metaschedule"), 500, "corrupt-artifact")


def test_autotvm_export_follows_the_format_of_autotvm(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", {"M": 100, "N": 7})
    worked = lines(client, "?format=autotvm")[0]
    target, task, arguments, keywords = worked["input"]
    assert (target, task) == ("cuda -arch=sm_90 -model=Test-GPU", "conv1d/direct.cuda")
    assert (dict(arguments), keywords) == (lines(client)[0]["workload"], {})
    [(knob, kind, value)] = worked["config"]["entity"]
    assert (knob, kind) == ("threads", "ot")
    costs, error, seconds, _ = worked["result"]
    assert costs == [pytest.approx(1e-6 * (1 + value))]
    assert (error, seconds) == (0, pytest.approx(0.5))
    assert worked["version"] == 0.2
    job = failed(engine)
    results = [line["result"] for line in lines(client, f"?format=autotvm&job={job.id}")]
    assert [result[1] for result in results] == [code for _, code in FAILURES.values()]
    assert {result[0][0] for result in results} == {1e9}


def test_kerneltuner_export_follows_the_t4_schema(client: TestClient, engine: Engine) -> None:
    assert client.get("/records?format=kerneltuner").json() == {
        "schema_version": "1.0.0", "metadata": {"timeunit": "milliseconds"}, "results": [],
    }  # fmt: skip
    tuned(engine, "conv1d", {"M": 100, "N": 7})
    failed(engine)
    response = client.get("/records?format=kerneltuner")
    assert response.headers["content-type"] == "application/json"
    first, _, *others = response.json()["results"]
    threads = first["configuration"]["threads"]
    assert first["measurements"][0] == {
        "name": "time", "value": pytest.approx(1e-3 * (1 + threads)), "unit": "ms",
    }  # fmt: skip
    assert (first["invalidity"], first["correctness"]) == ("correct", 1)
    assert first["times"] == {
        "compilation": pytest.approx(300),
        "validation": pytest.approx(100),
        "benchmark": pytest.approx(100),
        "runtimes": [first["measurements"][0]["value"]],
    }
    assert [each["invalidity"] for each in others] == [kind for kind, _ in FAILURES.values()]
    assert {each["correctness"] for each in others} == {0}
    for each in (first, *others):  # the required fields and types of Kernel Tuner's T4 schema
        assert {"configuration", "times", "invalidity", "correctness"} <= set(each)
        assert all(isinstance(m["value"], int | float) for m in each["measurements"])
        assert isinstance(each["times"]["runtimes"], list)


@pytest.mark.parametrize("form", ["convtune", "autotvm", "kerneltuner"])
def test_long_log_is_exported_in_pieces(
    client: TestClient, engine: Engine, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setitem(records.BATCHES, "trials", 5)
    failed(engine, count=9)
    filters = records.Filters()
    pieces = list(formats.export(engine, form, filters))  # type: ignore[arg-type]
    assert len(pieces) == 16  # 72 trials and the end
    assert b"".join(pieces) == client.get(f"/records?format={form}").content
    text = b"".join(pieces).decode()
    got = json.loads(text)["results"] if form == "kerneltuner" else text.splitlines()
    assert len(got) == 72


def test_import_creates_jobs_and_no_bests(client: TestClient, engine: Engine) -> None:
    line = record(client, engine)
    other = line | {"config": line["config"] | {"vectors": 999}, "time_us": 0.001}
    shape = line | {"workload": line["workload"] | {"M": 101}}
    before = client.get("/best/conv1d?M=100&N=7").json()
    response = post(client, line, other, "", shape, line)
    assert response.status_code == 201
    said = response.json()
    assert said["records"] == 4
    assert [job["configurations"] for job in said["jobs"]] == [2, 1]
    assert {job["target"] for job in said["jobs"]} == {"cpu"}
    first = client.get(said["jobs"][0]["url"]).json()
    assert (first["search"], first["state"], first["trials"]["requested"]) == (
        "imported", "queued", 2,
    )  # fmt: skip
    stored = listed.of_job(engine, first["id"])
    assert [each.config for each in stored] == [line["config"], other["config"]]
    assert stored[1].source == {"line": 2, "time_us": 0.001, "device": "Test CPU"}
    assert client.get("/best/conv1d?M=100&N=7").json() == before  # an imported time is no best
    again = post(client, line, other).json()["jobs"]
    assert again == [said["jobs"][0] | {"created": False}]
    assert post(client, other).json()["jobs"][0]["created"] is True


def test_metaschedule_lines_are_imported_only_if_they_name_their_template(
    client: TestClient, engine: Engine
) -> None:
    line = record(client, engine)
    ours = {"convtune": line, "workload": ["1", ""], "tuning_record": [[], [1e-9], {}, []]}
    assert post(client, ours).status_code == 201
    foreign = {"workload": ["1", ""], "tuning_record": [[], [1e-9], {}, []]}
    document = problem(post(client, line, foreign), 422, "invalid-request", "records.2.convtune")
    assert "only if this field names its template" in document["detail"]


def test_import_of_an_autotvm_log_orders_its_shapes(client: TestClient) -> None:
    answer = post(client, *TOPHUB, depthwise(target="llvm"), TOPHUB[1])
    assert answer.status_code == 201, answer.text
    said = answer.json()
    assert (said["format"], said["records"]) == ("AutoTVM's log", 5)
    assert [(job["target"], job["configurations"]) for job in said["jobs"]] == [
        ("cuda", None), ("cpu", None),
    ]  # fmt: skip
    reasons = {each["reason"]: (each["records"], each["line"]) for each in said["refused"]}
    assert reasons == {
        "'conv2d_nchw.cuda' is a task of another operator": (1, 1),
        "its dilation is 1 and 2, but both must be the same": (1, 3),
    }
    job = said["jobs"][0]
    usual = {name: job[name] for name in ("operator", "workload", "target")}
    known = client.post("/jobs", json=usual)  # an import has the default terms of an order
    assert (known.status_code, known.json()["id"]) == (200, job["id"])
    again = post(client, *TOPHUB).json()["jobs"]
    assert again == [job | {"created": False}]


def test_t4_results_are_imported_as_one_document(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", {"M": 100, "N": 7}, HOST)
    exported = client.get("/records?format=kerneltuner").text
    kinds = ("application/json", "application/x-ndjson")
    answers = [
        client.post("/records", content=exported, headers={"content-type": kind}) for kind in kinds
    ]
    for answer in answers:
        said = answer.json()
        assert answer.status_code == 201, answer.text
        assert (said["format"], said["records"]) == ("Kernel Tuner's T4 results", 2)
        [job] = said["jobs"]
        assert (job["operator"], job["workload"]["M"], job["target"]) == ("conv1d", 100, "cpu")


def test_import_reports_the_orders_that_exceed_the_quota(database_url: str) -> None:
    settings = Settings(database_url=database_url, max_unfinished_jobs=1)
    with TestClient(create_app(settings)) as client:
        said = post(client, *TOPHUB, depthwise(target="llvm")).json()
        assert len(said["jobs"]) == 1
        assert (said["refused"][-1]["records"], said["refused"][-1]["line"]) == (1, None)
        assert "unfinished" in said["refused"][-1]["reason"]
        problem(post(client, depthwise(target="llvm")), 429, "too-many-jobs")


def test_refusal_names_a_format_that_can_not_be_imported(
    client: TestClient, engine: Engine
) -> None:
    before = rows(engine)
    for content in UNUSABLE:
        refusal = client.post("/records", content=content, headers=TYPE)
        fields = ["records.1.log"] + ["records.1.shape"] * (b'"results"' in content)
        document = problem(refusal, 422, "invalid-request", *fields)
        assert any(name in document["detail"] for name in ("Tuner's", "MetaSchedule's", "TVM's"))
    assert rows(engine) == before


CHANGES: dict[str, tuple[Any, str]] = {
    "version of the format": ({"convtune": 2}, "convtune"),
    "operator": ({"operator": "conv3d"}, "operator"),
    "another's shape": ({"workload": {"M": 4, "N": 5, "mode": "valid"}}, "workload.N"),
    "shape": ({"workload": {"M": 10**12, "N": 5}}, "workload.M"),
    "shape of another type": ({"workload": "M=4"}, "workload"),
    "target": ({"target": "rocm"}, "target"),
    "template": ({"template": "gone"}, "template"),
    "template of another kind": ({"template": "registers"}, "template"),
    "version": ({"version": 77}, "version"),
    "version as text": ({"version": "1"}, "version"),
    "no configuration": ({"config": None}, "config"),
    "configuration's template": ({"config": {"template": "fft"}}, "config.template"),
    "an object for a value": ({"config": {"template": "direct", "a": {}}}, "config.a"),
    "a huge number": ({"config": {"template": "direct", "a": 10**30}}, "config.a"),
    "text with NUL": ({"config": {"template": "direct", "a": "\0"}}, "config.a"),
    "half a character": ({"config": {"template": "direct", "a": "\ud800"}}, "config.a"),
    "a long split": ({"config": {"template": "direct", "a": [1] * 65}}, "config.a"),
    "a knob's name": ({"config": {"template": "direct", "a b": 1}}, "config"),
    "many knobs": ({"config": {"template": "direct"} | {f"k{n}": n for n in range(64)}}, "config"),
    "an unknown field": ({"code": "import os"}, "code"),
    "a time": ({"time_us": "fast"}, "time_us"),
}

NO_RECORDS = [
    "{", "[]", "null", "7", '"text"', "NaN", '{"convtune": NaN}', '{"a": 1, "a": 2}',
    "[" * 100_000, '{"convtune": ' + "9" * 5000 + "}", "\x80\x04\x95pickle",
]  # fmt: skip


def test_invalid_record_is_refused_with_its_number_and_field(
    client: TestClient, engine: Engine
) -> None:
    line = record(client, engine)
    before = rows(engine)
    for changes, field in CHANGES.values():
        response = post(client, line, line | changes, line)
        document = problem(response, 422, "invalid-request", f"records.2.{field}")
        assert "nothing was imported" in document["detail"]
    assert rows(engine) == before


def test_shapes_of_another_versions_records_import_as_kerneltuner_results(
    client: TestClient, engine: Engine
) -> None:
    line = record(client, engine)
    refusal = post(client, line | {"version": 77})
    refused = problem(refusal, 422, "invalid-request", "records.1.version")["detail"]
    assert "export with format kerneltuner" in refused
    results = client.get("/records?format=kerneltuner&of=bests").content
    answer = client.post("/records", content=results, headers=TYPE).json()
    assert [each["workload"] for each in answer["jobs"]] == [line["workload"]]


def test_line_that_is_not_a_record_is_refused(client: TestClient, engine: Engine) -> None:
    line = record(client, engine)
    before = rows(engine)
    for text in NO_RECORDS:
        problem(post(client, line, text), 422, "invalid-request", "records.2.record")
    assert rows(engine) == before


@pytest.mark.parametrize("workload", [[], 1, None, "[]", "null"])
def test_record_whose_workload_is_not_an_object_is_refused(
    client: TestClient, engine: Engine, workload: object
) -> None:
    line = record(client, engine) | {"workload": workload}
    refused = problem(post(client, line), 422, "invalid-request", "records.1.workload")
    assert "must be a JSON object" in refused["detail"]


def test_log_that_is_not_text_is_refused(client: TestClient) -> None:
    body = b"\x80\x04\x95\x1b\x00\x00\x00"
    refusal = client.post("/records", content=body, headers=TYPE)
    problem(refusal, 422, "invalid-request", "records.1.record")


def test_import_refuses_empty_long_large_and_untyped_logs(
    client: TestClient, engine: Engine
) -> None:
    line = json.dumps(record(client, engine))
    problem(post(client), 422, "invalid-request", "records.1.log")
    many = client.post("/records", content="\n".join(["{}"] * 50), headers=TYPE)
    assert len(many.json()["errors"]) == 20
    short = json.dumps({k: v for k, v in json.loads(line).items() if k in NEEDED})
    full = post(client, *[short] * 10_001)
    assert "10000" in problem(full, 422, "invalid-request", "records.10001.log")["detail"]
    large = client.post("/records", content=b" " * (8 * 2**20 + 1), headers=TYPE)
    assert "split the log" in problem(large, 413, "body-too-large")["detail"]
    for kind in ({}, {"content-type": "text/plain"}):
        problem(client.post("/records", content=line, headers=kind), 415, "unsupported-media-type")


NEEDED = ("convtune", "operator", "workload", "target", "template", "version", "config")
