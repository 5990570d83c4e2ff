"""Orders and answers that are restricted to some templates."""

from typing import Any

import pytest
from problem_shape import problem
from service_rows import HOST, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

ORDER = {"operator": "conv1d", "workload": {"M": 4096, "N": 128}, "target": "cpu"}
URL = "/best/conv1d?M=4096&N=128"


def test_job_shows_its_templates_and_links_to_their_best(client: TestClient) -> None:
    response = client.post("/jobs", json=ORDER | {"templates": ["fft", "direct", "fft"]})
    assert response.status_code == 201, response.text
    job = response.json()
    assert job["templates"] == ["direct", "fft"]
    assert "&templates=direct%2Cfft" in job["links"]["best"]
    assert client.get(job["links"]["self"]).json() == job
    again = client.post("/jobs", json=ORDER | {"templates": ["direct", "fft"]})
    assert (again.status_code, again.json()["id"]) == (200, job["id"])
    every = client.post("/jobs", json=ORDER).json()
    assert (every["templates"], every["id"] == job["id"]) == (None, False)


@pytest.mark.parametrize(
    ("names", "target"),
    [
        (["toeplitz"], "cuda"),
        (["hankel", "toeplitz"], "cuda"),
        (["direct"], "auto"),
        (None, "auto"),
    ],
    ids=str,
)
def test_auto_order_becomes_cuda_if_its_templates_are_cuda_only(
    client: TestClient, names: list[str] | None, target: str
) -> None:
    """Any worker takes an order for ``auto``, and one without these templates would fail it."""
    order = ORDER | {"target": "auto", "templates": names}
    assert client.post("/jobs", json=order).json()["target"] == target
    model = {"name": "all", "workloads": [{name: ORDER[name] for name in ("operator", "workload")}]}
    made = client.post("/models", json=model | {"target": "auto", "templates": names}).json()
    [layer] = client.get(made["links"]["self"]).json()["layers"]
    assert client.get(layer["links"]["job"]).json()["target"] == target


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"templates": ["dirct"]}, "templates.0", "must be 'direct', 'fft',"),
        ({"templates": []}, "templates", "at least 1"),
        ({"templates": "direct"}, "templates", "list"),
        ({"templates": ["toeplitz"]}, "templates", "on cpu has no such template; choose from"),
        (
            {"templates": ["direct"], "search": "metaschedule"},
            "templates",
            "can't be chosen for metaschedule",
        ),
    ],
)
def test_invalid_templates_are_refused_with_the_reason(
    client: TestClient, changes: dict[str, Any], field: str, says: str
) -> None:
    refused = problem(client.post("/jobs", json=ORDER | changes), 422, "invalid-request", field)
    assert says in refused["errors"][0]["message"]


def test_best_can_be_requested_by_its_template(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", ORDER["workload"], HOST)  # its best is of the template direct
    assert client.get(f"{URL}&templates=direct").json()["template"] == "direct"
    assert client.get(f"{URL}&templates=direct,fft").json()["template"] == "direct"
    refused = problem(client.get(f"{URL}&templates=fft"), 404, "not-tuned")
    assert refused["tune"]["body"]["templates"] == ["fft"]
    assert "by fft (but it has on Test CPU by direct)" in refused["detail"]
    wrong = problem(client.get(f"{URL}&templates=ff"), 422, "invalid-request", "templates")
    message = wrong["errors"][0]["message"]
    assert "names 'ff', but conv1d has no such template; choose from" in message


def test_nearest_answer_has_one_of_the_requested_templates(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", ORDER["workload"], HOST)
    near = "/best/conv1d?M=4095&N=128&match=nearest"
    assert client.get(f"{near}&templates=fft").status_code == 404
    verify = client.get(f"{near}&templates=direct").json()["verify"]
    assert verify["body"]["templates"] == ["direct"]
    job = client.request(verify["method"], verify["url"], json=verify["body"])
    assert (job.status_code, job.json()["templates"]) == (201, ["direct"])


def test_order_form_takes_templates_and_keeps_them_in_a_duplicate(client: TestClient) -> None:
    sent = {"operator": "conv1d", "workload.M": "4096", "workload.N": "128"}
    here = {"sec-fetch-site": "same-origin", "accept": "text/html"}
    answer = client.post("/ui/jobs", data=sent | {"templates": "fft, direct"}, headers=here)
    assert "<dd>direct, fft</dd>" in answer.text
    job = answer.url.path.rpartition("/")[2]
    assert 'value="direct, fft"' in client.get(f"/?duplicate={job}", headers=here).text
    refused = client.post("/ui/jobs", data=sent | {"templates": "ff"}, headers=here)
    assert refused.status_code == 422
    assert "must be &#39;direct&#39;" in refused.text
