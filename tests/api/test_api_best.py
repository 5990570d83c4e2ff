"""GET /best for a shape: exact answers, and the 404 if there is none."""

from dataclasses import asdict
from urllib.parse import urlencode

import pytest
from problem_shape import problem
from service_rows import GPU, HOST, LIBRARY, tuned
from sqlalchemy import Engine
from starlette.testclient import TestClient

from templates.arithmetic import DIRECT

SHAPE = {"M": 16384, "N": 32}
URL = f"/best/conv1d?{urlencode(SHAPE)}"


def test_exact_match_answers_with_the_stored_best(client: TestClient, engine: Engine) -> None:
    job = tuned(engine, "conv1d", SHAPE, time_us=1.7)
    response = client.get(URL)
    best = response.json()
    assert response.status_code == 200, response.text
    assert (best["match"], best["neighbour"], best["operator"]) == ("exact", None, "conv1d")
    assert best["workload"] == job.workload
    assert best["device"] == {"kind": "cuda", "name": "Test GPU", "arch": "sm_90"}
    assert best["devices"] == [best["device"] | {"time_us": 1.7}]
    assert best["config"]["template"] == best["template"]
    assert best["arithmetic"] == asdict(DIRECT)
    assert best["time_us"] == best["timing"]["warm"]["median"] == 1.7
    assert best["roofline"]["bound"] == "compute"
    assert best["baselines"] == [{"name": "numpy", "time_us": 300.0, "speedup": 200.0}]
    assert (best["job"], best["trials"]) == (job.id, 2)
    assert best["tuned_at"].endswith("Z")


def test_workload_with_an_epilogue_has_a_best_of_its_own(
    client: TestClient, engine: Engine
) -> None:
    plain = tuned(engine, "conv1d", SHAPE)
    finished = tuned(engine, "conv1d", SHAPE | {"bias": True, "activation": "relu6"})
    assert client.get(URL).json()["job"] == plain.id
    assert client.get(f"{URL}&bias=false&activation=none").json()["job"] == plain.id
    for said in ("true", "True"):
        best = client.get(f"{URL}&bias={said}&activation=relu6").json()
        assert (best["job"], best["workload"]["bias"]) == (finished.id, True)
    link = client.get(f"/jobs/{finished.id}").json()["links"]["best"]
    assert "bias=true&residual=false" in link
    assert client.get(link).json()["job"] == finished.id
    assert client.get(f"{URL}&bias=true").status_code == 404
    refused = problem(client.get(f"{URL}&bias=1"), 422, "invalid-request", "bias")
    assert "must be true or false" in refused["errors"][0]["message"]


def test_float16_has_a_best_and_a_default_error_limit_of_its_own(
    client: TestClient, engine: Engine
) -> None:
    full = tuned(engine, "conv1d", SHAPE)
    half = tuned(engine, "conv1d", SHAPE | {"dtype": "float16"})
    assert client.get(URL).json()["job"] == full.id
    for url in (f"{URL}&dtype=float16", f"{URL}&dtype=float16&max_error=0.001"):
        best = client.get(url).json()
        assert (best["job"], best["workload"]["max_error"]) == (half.id, 1e-3)
    assert client.get(f"{URL}&dtype=float16&max_error=0.01").status_code == 404
    response = client.get(f"{URL}&dtype=float16&max_error=1e-5")
    refused = problem(response, 422, "invalid-request", "max_error")
    assert "at least 0.0005 for float16" in refused["errors"][0]["message"]


def test_artifacts_of_a_best_can_be_fetched(client: TestClient, engine: Engine) -> None:
    job = tuned(engine, "conv1d", SHAPE)
    links = client.get(URL).json()["artifacts"]
    assert set(links) == {"library", "source", "manifest", "record", "signature"}
    library = client.get(links["library"]["url"])
    assert library.content == LIBRARY + job.id.encode()
    assert links["library"]["size"] == len(library.content)
    assert links["library"]["url"].endswith(links["library"]["sha256"])


def test_the_link_of_a_job_leads_to_its_best(client: TestClient, engine: Engine) -> None:
    shape = {"B": 3, "C": 4, "H": 16, "W": 32, "K": 7, "stride": 2}
    job = tuned(engine, "depthwise_conv2d", shape)
    links = client.get(f"/jobs/{job.id}").json()["links"]
    assert client.get(links["best"]).json()["job"] == job.id


def test_best_is_of_the_fastest_device_and_names_all_devices(
    client: TestClient, engine: Engine
) -> None:
    host = tuned(engine, "conv1d", SHAPE, HOST, time_us=40.0)
    gpu = tuned(engine, "conv1d", SHAPE, GPU, time_us=1.5)
    best = client.get(URL).json()
    assert best["job"] == gpu.id
    named = [(each["name"], each["time_us"]) for each in best["devices"]]
    assert named == [("Test GPU", 1.5), ("Test CPU", 40.0)]
    assert client.get(f"{URL}&target=cpu").json()["job"] == host.id
    assert client.get(f"{URL}&device=Test+CPU").json()["job"] == host.id
    assert client.get(f"{URL}&target=auto&mode=").json()["job"] == gpu.id


def test_parallel_and_threads_choose_the_best_by_its_thread_count(
    client: TestClient, engine: Engine
) -> None:
    """``parallel`` asks for a best on several threads, ``threads`` for one on at most so many."""
    tuned(engine, "conv1d", SHAPE, HOST, time_us=5.0, threads=1)
    tuned(engine, "conv1d", SHAPE, HOST, time_us=9.0, threads=2)
    assert client.get(URL).json()["time_us"] == 5.0
    assert client.get(f"{URL}&parallel=true").json()["time_us"] == 9.0
    assert client.get(f"{URL}&parallel=true&threads=1").json()["time_us"] == 5.0


def test_404_of_an_untuned_shape_contains_the_order_to_tune_it(
    client: TestClient, engine: Engine
) -> None:
    tuned(engine, "conv1d", SHAPE, GPU)
    document = problem(client.get(f"{URL}&target=cpu"), 404, "not-tuned")
    assert "Test GPU" in document["detail"]
    call = document["tune"]
    assert call["body"]["target"] == "cpu"
    taken = client.request(call["method"], call["url"], json=call["body"])
    assert taken.status_code == 201
    assert taken.json()["workload"]["M"] == 16384
    problem(client.get(f"{URL}&mode=valid"), 404, "not-tuned")
    problem(client.get(f"{URL}&device=Other+GPU"), 404, "not-tuned")
    problem(client.get(f"{URL}&device=%00%ED%A0%80"), 404, "not-tuned")


def test_best_gets_304_until_it_changes(client: TestClient, engine: Engine) -> None:
    tuned(engine, "conv1d", SHAPE)
    tag = client.get(URL).headers["etag"]
    assert tag.startswith('W/"')  # weak: the tag is the same for a compressed answer
    for sent in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        again = client.get(URL, headers={"If-None-Match": sent})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(URL, headers={"If-None-Match": '"other"'}).status_code == 200
    tuned(engine, "conv1d", SHAPE, time_us=1.4)
    changed = client.get(URL, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["time_us"]) == (200, 1.4)


@pytest.mark.parametrize(
    ("query", "fields", "says"),
    [
        ("M=100", "N", "required"),
        ("M=0&N=0", "M N", "at least 1"),
        ("M=3&N=4&mode=valid", "N", "spans 4 samples"),
        ("M=1e3&N=4", "M", "integer"),
        ("M=100.0&N=4", "M", "integer"),
        ("M=1_00&N=4", "M", "integer"),
        ("M=%D9%A1%D9%A0&N=4", "M", "integer"),  # Arabic digits
        ("M=%20100&N=4", "M", "integer"),
        ("M=99999999999999999999&N=4", "M", "M must be at most 16777216, but is 99999"),
        ("M=-99999999999999999999&N=4", "M", "M must be at least 1, but is -99999"),
        ("M=" + "9" * 640 + "&N=4", "M", "M must be at most 16777216, but is 99999"),
        ("M=" + "9" * 5000 + "&N=4", "M", "integer"),
        ("M=100&M=200&N=4", "M", "once"),
        ("M=100&N=4&K=3", "K", "known are"),
        ("M=100&N=4&strde=2", "strde", "did you mean stride?"),
        ("M=100&N=4&tagret=cpu", "tagret", "did you mean target?"),
        ("M=100&N=4&kind=mirror", "kind", "'convolve' or 'correlate'"),
        ("M=100&N=4&max_error=much", "max_error", "number"),
        ("M=100&N=4&max_error=nan", "max_error", "number"),
        ("M=100&N=4&max_error=1_0e-6", "max_error", "number"),
        ("M=100&N=4&target=tpu", "target", "'auto', 'cpu' or 'cuda'"),
        ("M=100&N=4&parallel=maybe", "parallel", "must be true or false, but is"),
        ("M=100&N=4&match=near", "match", "'exact', 'nearest' or 'predicted'"),
        ("M=100&N=4&device=" + "d" * 201, "device", "at most 200"),
        ("M=100&N=4&device=", "device", "is empty; give a value, or leave it out"),
        ("M=100&N=4&templates=&threads=&target=", "target threads templates", "leave it out"),
        ("M=0&N=4&match=near&x=1", "x M match", "at least 1"),
    ],
)
def test_invalid_query_is_refused_with_field_and_reason(
    client: TestClient, query: str, fields: str, says: str
) -> None:
    response = client.get(f"/best/conv1d?{query}")
    document = problem(response, 422, "invalid-request", *fields.split())
    assert says in document["detail"]


def test_unknown_operator_gets_404_with_the_known_ones(client: TestClient) -> None:
    for path in ("/best/conv3d?M=1", "/operators/conv3d", "/best/%00"):
        document = problem(client.get(path), 404, "unknown-operator")
        assert "conv1d, depthwise_conv2d" in document["detail"]
