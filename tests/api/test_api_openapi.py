"""The OpenAPI document is complete and has examples; all routes' errors have one shape."""

import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from problem_shape import problem
from starlette.testclient import TestClient

from api.main import create_app
from api.problems.problems import KINDS, MEDIA_TYPE, ProblemDocument

DOCUMENT: dict[str, Any] = create_app().openapi()
OPERATIONS = [
    (method, path) for path, operations in DOCUMENT["paths"].items() for method in operations
]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema to which ``$ref`` leads."""
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def test_openapi_document_is_valid() -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_openapi_document_has_exactly_the_designed_routes() -> None:
    assert {f"{method} {path}" for method, path in OPERATIONS} == {
        "post /jobs",
        "get /jobs",
        "get /jobs/{job_id}",
        "post /jobs/nearest",
        "post /jobs/{job_id}/cancel",
        "get /jobs/{job_id}/trials",
        "get /jobs/{job_id}/events",
        "post /models",
        "get /models",
        "get /models/{model_id}",
        "post /models/{model_id}/cancel",
        "get /best/conv1d",
        "get /best/depthwise_conv2d",
        "get /artifacts/{sha256}",
        "get /operators",
        "get /operators/{name}",
        "get /ladders/{operator}",
        "get /workers",
        "get /signers",
        "get /records",
        "post /records",
        "get /",
        "get /healthz",
        "get /readyz",
        "get /metrics",
    }


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_route_is_documented_with_examples_and_errors(method: str, path: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    assert operation["summary"]
    assert operation["tags"]
    answers = operation["responses"]
    errors = [answer for status, answer in answers.items() if int(status) >= 400]
    assert len(errors) >= 3
    for answer in errors:
        assert resolved(answer["content"][MEDIA_TYPE]["schema"])["title"] == "ProblemDocument"
    success = next(answer for status, answer in answers.items() if int(status) < 300)
    for media_type, content in success["content"].items():
        if media_type == "application/json":
            schema = resolved(content["schema"])
            items = resolved(schema.get("properties", {}).get("items", {}).get("items", {}))
            assert path == "/records" or schema.get("examples") or items.get("examples")
        else:
            assert "schema" in content or media_type == "*/*"


def test_the_order_has_an_example_for_each_operator() -> None:
    body = DOCUMENT["paths"]["/jobs"]["post"]["requestBody"]["content"]["application/json"]
    assert set(body["examples"]) == {"conv1d", "depthwise_conv2d"}
    assert body["schema"]["discriminator"]["propertyName"] == "operator"


def test_each_kind_of_event_has_a_schema_of_its_data() -> None:
    answer = DOCUMENT["paths"]["/jobs/{job_id}/events"]["get"]["responses"]["200"]
    kinds = answer["content"]["text/event-stream"]["schema"]["oneOf"]
    carried = {
        kind["properties"]["event"]["const"]: kind["properties"]["data"]["contentSchema"]
        for kind in kinds
    }
    assert set(carried) == {"state", "trial", "best", "progress"}
    assert all(resolved(schema)["examples"] for schema in carried.values())


@pytest.mark.parametrize(
    ("name", "required", "free"),
    [
        ("conv1d", "M N", "mode kind B C F groups stride dilation padding layout gated"),
        ("depthwise_conv2d", "B C H W", "K KH KW stride padding dilation multiplier layout"),
    ],
)
def test_best_route_has_a_parameter_for_every_workload_field(
    name: str, required: str, free: str
) -> None:
    parameters = DOCUMENT["paths"][f"/best/{name}"]["get"]["parameters"]
    queried = {each["name"]: each["required"] for each in parameters if each["in"] == "query"}
    both = ["dtype", "max_error", "bias", "residual", "activation", "direction"]
    both += ["target", "device", "threads", "parallel", "templates", "match"]
    assert queried == dict.fromkeys(required.split(), True) | dict.fromkeys(
        [*free.split(), *both], False
    )


def test_openapi_links_lead_from_an_order_to_its_files() -> None:
    operations = {
        said["operationId"]: (path, {each["name"] for each in said.get("parameters", [])})
        for path, item in DOCUMENT["paths"].items()
        for said in item.values()
    }
    led = {}
    for path, item in DOCUMENT["paths"].items():
        for said in item.values():
            for answer in said["responses"].values():
                for name, link in answer.get("links", {}).items():
                    there, known = operations[link["operationId"]]
                    assert set(link["parameters"]) <= known
                    led[path, name] = there
    job = "/jobs/{job_id}"
    for path in ("/jobs", "/jobs/nearest", job, f"{job}/cancel", "/records"):
        assert led[path, "job"] == job
        assert led[path, "events"] == f"{job}/events"
    for path in ("/models", "/models/{model_id}", "/models/{model_id}/cancel"):
        assert led[path, "model"] == "/models/{model_id}"
        assert led[path, "job"] == job
    for operator in ("conv1d", "depthwise_conv2d"):
        assert led[f"/best/{operator}", "library"] == "/artifacts/{sha256}"
        assert led[f"/best/{operator}", "tune"] == "/jobs"


def test_no_parameter_is_nullable() -> None:
    for method, path in OPERATIONS:
        for each in DOCUMENT["paths"][path][method].get("parameters", []):
            assert "null" not in str(each["schema"].get("anyOf", "")), (path, each["name"])


def test_examples_have_the_fields_of_their_schema() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for example in schema.get("examples", []):
            missing = set(schema["properties"]) - set(example)
            assert set(example) <= set(schema["properties"]), name
            # a missing field must be nullable: FastAPI leaves nulls out of the document
            assert all("null" in str(schema["properties"][field]) for field in missing), name


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_errors_of_every_route_are_problem_documents(
    client: TestClient, method: str, path: str
) -> None:
    asked = path.replace("{", "nothing-").replace("}", "")
    problem(client.request("TRACE", asked), 405, "method-not-allowed")
    response = client.request(method, f"{asked}?limit=0&cursor=!")
    if "{" in path or "limit" in str(DOCUMENT["paths"][path][method].get("parameters")):
        assert response.status_code in {404, 422}
    if response.status_code >= 400:
        ProblemDocument.model_validate(response.json())
        assert response.headers["content-type"] == MEDIA_TYPE
    large = client.request(method, asked, headers={"content-length": "70000000"})
    problem(large, 413, "body-too-large")
    nowhere = client.request(method, f"{asked}/nothing/there".replace("//", "/"))
    problem(nowhere, 404, "route-not-found")


def test_405_lists_the_allowed_methods(client: TestClient) -> None:
    assert client.delete("/jobs").headers["allow"] == "GET, HEAD, POST"
    assert client.get("/jobs/1/cancel").headers["allow"] == "POST"
    assert client.options("/jobs/nearest").headers["allow"] == "POST"


def test_every_kind_of_problem_has_an_error_status() -> None:
    assert all(400 <= status < 600 and title for status, title in KINDS.values())


def test_docs_page_loads_only_files_of_the_service(client: TestClient) -> None:
    page = client.get("/docs")
    files = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert {file.partition("?")[0].rpartition("/")[2] for file in files} >= {
        "swagger-ui-bundle.js", "swagger-ui.css", "frame.css", "docs.js"
    }  # fmt: skip
    assert all(client.get(file).status_code == 200 for file in files)
    assert "://" not in page.text
    assert "<script>" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "validatorUrl: null" in client.get("/static/docs.js").text
    assert client.get("/openapi.json").json() == DOCUMENT


@pytest.mark.parametrize(("method", "path"), [o for o in OPERATIONS if o[0] == "get"])
def test_head_is_get_without_its_body(client: TestClient, method: str, path: str) -> None:
    asked = path.replace("{", "nothing-").replace("}", "")
    get, head = client.get(asked), client.head(asked)
    assert head.status_code == get.status_code
    assert head.content == b""
    assert head.headers["content-type"] == get.headers["content-type"]
