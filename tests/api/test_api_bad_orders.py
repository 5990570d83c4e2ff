"""Every invalid order is refused with the name of its field, and nothing is written."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from problem_shape import problem
from service_rows import rows
from sqlalchemy import Engine
from starlette.testclient import TestClient

from api.middleware.body_limit import MAX_BODY_BYTES

SHAPE = {"M": 100, "N": 3}
IMAGE = {"B": 1, "C": 1, "H": 8, "W": 8, "K": 3}
JSON = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def nothing_written(engine: Engine) -> Iterator[None]:
    """Fail if a test of this module writes a row."""
    before = rows(engine)
    yield
    assert rows(engine) == before


def conv1d(**changes: Any) -> dict[str, Any]:
    return {"operator": "conv1d", "workload": SHAPE} | changes


def image(**changes: Any) -> dict[str, Any]:
    return {"operator": "depthwise_conv2d", "workload": IMAGE | changes}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"M": 0}, "workload.M must be at least 1, but is 0"),
        ({"M": 2, "mode": "valid"}, "workload.N: the kernel spans 3 samples, but input and"),
        ({"mode": "full", "padding": [1, 1]}, "workload.padding: give mode or padding, not both"),
    ],
)
def test_refusal_names_the_field_in_a_sentence(
    client: TestClient, changes: dict[str, Any], says: str
) -> None:
    answer = client.post("/jobs", json=conv1d(workload=SHAPE | changes))
    assert answer.json()["detail"].startswith(says)


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (conv1d(operator="conv3d"), "operator", "'conv1d', 'depthwise_conv2d'"),
        (conv1d(operator=None), "operator", "'depthwise_conv2d', but is null"),
        (conv1d(operator=["conv1d"]), "operator", "'depthwise_conv2d', but is a list"),
        ({"workload": SHAPE}, "operator", "required"),
        ({"operator": "conv1d"}, "workload", "required"),
        (conv1d(workload=[1]), "workload", "JSON object"),
        (conv1d(workload={"M": 100}), "workload.N", "required"),
        (conv1d(workload=SHAPE | {"L": 1}), "workload.L", "remove it"),
        (conv1d(workload=SHAPE | {"strid": 1}), "workload.strid", "did you mean stride?"),
        (conv1d(workload=SHAPE | {"chanels": 1}), "workload.chanels", "did you mean C or F?"),
        (image(Batch=1), "workload.Batch", "did you mean B?"),
        (conv1d(trails=3), "trails", "did you mean trials?"),
        (
            conv1d(workload=SHAPE | {"trails": 3}),
            "workload.trails",
            "did you mean trials, beside workload?",
        ),
        (conv1d(device="H100"), "device", "did you mean for_device?"),
        (conv1d(**{"t" * 99: 3}), f"{'t' * 60}…", "remove it"),
        (conv1d(workload=SHAPE | {"M": 0, "N": 0}), "workload.M workload.N", "at least 1"),
        (conv1d(workload={"M": 3, "N": 4, "mode": "valid"}), "workload.N", "spans 4 samples"),
        (conv1d(workload=SHAPE | {"M": 100.0}), "workload.M", "integer, but is 100.0"),
        (conv1d(workload=SHAPE | {"M": "100"}), "workload.M", 'integer, but is "100"'),
        (conv1d(workload=SHAPE | {"M": True}), "workload.M", "integer, but is true"),
        (conv1d(workload=SHAPE | {"M": None}), "workload.M", "integer, but is null"),
        (conv1d(workload=SHAPE | {"M": 2**24 + 1}), "workload.M", "at most 16777216"),
        (conv1d(workload=SHAPE | {"M": 10**400}), "workload.M", "at most 16777216"),
        (conv1d(workload={"M": 2**24, "N": 2**16, "dilation": 2}), "workload.M", "2^40"),
        (
            conv1d(workload=SHAPE | {"mode": "half"}),
            "workload.mode",
            "'full', 'same', 'valid' or 'causal'",
        ),
        (
            conv1d(workload=SHAPE | {"dtype": "float64"}),
            "workload.dtype",
            "'float32', 'float16' or 'bfloat16'",
        ),
        (
            conv1d(workload=SHAPE | {"dtype": "float16", "max_error": 1e-5}),
            "workload.max_error",
            "must be at least 0.0005 for float16",
        ),
        (conv1d(workload=SHAPE | {"max_error": 0.5}), "workload.max_error", "at most 0.1"),
        (image(K=None), "workload.K", "both KH and KW"),
        (image(K=65), "workload.K", "at most 63"),
        (image(stride=5), "workload.stride", "1, 2, 3 or 4"),
        (image(padding=[1, 1]), "workload.padding", "top, left, bottom and right"),
        (image(B=2**15, C=2**15), "workload.B", "2^31 bytes"),
        (conv1d(trials=0), "trials", "at least 1"),
        (conv1d(trials=100_001), "trials", "at most 100000"),
        (conv1d(trials=1.5), "trials", "integer"),
        (
            conv1d(search="annealing"),
            "search",
            "'xgb', 'evolutionary', 'random', 'grid', 'predicted' or 'metaschedule'",
        ),
        (conv1d(target="tpu"), "target", "'auto', 'cpu' or 'cuda'"),
        (conv1d(on_existing="ignore"), "on_existing", "'reuse' or 'retune'"),
        (conv1d(budget_seconds=0), "budget_seconds", "more than 0"),
        (conv1d(budget_seconds=1e9), "budget_seconds", "at most 604800"),
        (conv1d(seed=-1), "seed", "at least 0"),
        (conv1d(seed=2**31), "seed", "at most 2147483647"),
        (conv1d(patience=0), "patience", "at least 1"),
        (conv1d(warm_start="no"), "warm_start", "true or false"),
        (conv1d(priority=9), "priority", "remove it"),
        ([], "body", "JSON object"),
        ("conv1d", "body", "JSON object"),
        (None, "body", "required"),
        (conv1d(search="x", trials=0, seed=-1), "trials search seed", "at least 1"),
    ],
)
def test_invalid_order_is_refused_with_field_and_reason(
    client: TestClient, body: Any, field: str, says: str
) -> None:
    response = client.post("/jobs", json=body)
    document = problem(response, 422, "invalid-request", *field.split())
    assert says in document["detail"]


@pytest.mark.parametrize("text", ["{no", "{'M': 1}", "[1,]", "\0", '{"operator": "conv1d"'])
def test_body_that_is_not_json_gets_400(client: TestClient, text: str) -> None:
    response = client.post("/jobs", content=text, headers=JSON)
    problem(response, 400, "body-not-json", "body")


@pytest.mark.parametrize("text", [b"[" * 30_000, b'{"M":' + b"9" * 5000 + b"}"])
def test_json_nested_too_deep_or_with_a_huge_number_gets_400(
    client: TestClient, text: bytes
) -> None:
    problem(client.post("/jobs", content=text, headers=JSON), 400, "bad-request")


def test_order_without_a_body_is_refused(client: TestClient) -> None:
    problem(client.post("/jobs"), 422, "invalid-request", "body")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_nan_and_infinite_numbers_are_refused(client: TestClient, value: str) -> None:
    text = json.dumps(conv1d()).replace("}}", f', "max_error": {value}}}}}')
    response = client.post("/jobs", content=text, headers=JSON)
    problem(response, 422, "invalid-request", "workload.max_error")
    text = json.dumps(conv1d())[:-1] + f', "budget_seconds": {value}}}'
    response = client.post("/jobs", content=text, headers=JSON)
    problem(response, 422, "invalid-request", "budget_seconds")


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_body_without_a_json_content_type_gets_415(client: TestClient, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    response = client.post("/jobs", content=json.dumps(conv1d()).encode(), headers=headers)
    document = problem(response, 415, "unsupported-media-type")
    assert "content-type: application/json" in document["detail"]


def test_a_body_over_the_limit_is_refused_before_it_is_read(client: TestClient) -> None:
    body = json.dumps(conv1d()).encode().ljust(MAX_BODY_BYTES + 1)
    document = problem(client.post("/jobs", content=body, headers=JSON), 413, "body-too-large")
    assert str(MAX_BODY_BYTES) in document["detail"]


def test_chunked_body_over_the_limit_is_refused(client: TestClient) -> None:
    pieces = iter([json.dumps(conv1d()).encode(), b" " * MAX_BODY_BYTES])
    problem(client.post("/jobs", content=pieces, headers=JSON), 413, "body-too-large")


@pytest.mark.parametrize("path", ["/jobs", "/models", "/jobs/nearest", "/records"])
def test_an_order_takes_no_query(client: TestClient, path: str) -> None:
    """A query is refused, because the order would ignore it and get default terms."""
    body = conv1d() if path != "/models" else {"name": "small", "workloads": [conv1d()]}
    answer = client.post(f"{path}?trials=8&trials=9", json=body)
    document = problem(answer, 422, "invalid-request", "trials")
    assert document["detail"] == (f"trials is not taken here: POST {path} has no query; remove it")


@pytest.mark.parametrize("path", ["/workers", "/operators", "/operators/conv1d", "/signers"])
def test_list_without_filters_refuses_a_query(client: TestClient, path: str) -> None:
    document = problem(client.get(f"{path}?state=idle"), 422, "invalid-request", "state")
    assert document["detail"] == f"state is not taken here: GET {path} has no query; remove it"


def test_a_query_of_many_unknown_names_has_a_short_refusal(client: TestClient) -> None:
    names = [f"strid{number}" for number in range(2000)]
    answer = client.get(f"/best/conv1d?M=100&N=3&{'=2&'.join(names)}=2")
    problem(answer, 422, "invalid-request", *names[:50])
    assert len(answer.content) < 20_000


def test_repeated_json_member_is_refused(client: TestClient) -> None:
    """A repeated name is refused, because parsers differ in which of the two values they take."""
    for text, name in (
        ('{"operator": "conv1d", "workload": {"M": 100, "M": 200, "N": 3}}', "workload.M"),
        (
            '{"operator": "conv1d", "operator": "conv1d", "workload": {"M": 100, "N": 3}}',
            "operator",
        ),
        (
            '{"operator": "conv1d", "workload": {"M": 9, "N": 3}, "\\ud800": 1, "\\ud800": 2}',
            "\ud800",
        ),
    ):
        document = problem(
            client.post("/jobs", content=text, headers=JSON), 422, "invalid-request", name
        )
        assert document["detail"].endswith("is given more than once; give it once")
    layer = '{"operator": "conv1d", "workload": {"M": 100, "N": 3}, "calls": 1, "calls": 2}'
    text = f'{{"name": "net", "workloads": [{layer}]}}'
    problem(
        client.post("/models", content=text, headers=JSON),
        422,
        "invalid-request",
        "workloads.0.calls",
    )
    text = json.dumps(conv1d())[:-1] + ', "target": "cpu", "target": "cuda"}'
    answer = client.post("/jobs/nearest", content=text, headers=JSON)
    problem(answer, 422, "invalid-request", "target")


def test_body_that_is_not_utf_8_is_refused(client: TestClient) -> None:
    text = json.dumps(conv1d(label="é"), ensure_ascii=False).encode("latin-1")
    document = problem(client.post("/jobs", content=text, headers=JSON), 400, "body-not-json")
    assert f"at byte {text.index(0xE9)}; send JSON in UTF-8" in document["detail"]


@pytest.mark.parametrize("path", ["/jobs", "/models", "/records"])
def test_compressed_body_is_refused(client: TestClient, path: str) -> None:
    """A compressed body is refused, and so is a plain one that is declared as compressed.

    A proxy in between may unpack the body.
    """
    headers = JSON | {"content-encoding": "gzip"}
    for body in (gzip.compress(json.dumps(conv1d()).encode()), json.dumps(conv1d()).encode()):
        answer = client.post(path, content=body, headers=headers)
        document = problem(answer, 415, "unsupported-media-type")
        assert document["detail"].startswith("content-encoding gzip is not taken")
