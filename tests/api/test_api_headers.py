"""Security headers, which every answer has, and CORS headers, which no answer has."""

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from api.middleware.headers import SECURITY_HEADERS

ELSEWHERE = {"origin": "https://elsewhere.example"}
ANSWERS = [
    ("GET", "/healthz", 200),
    ("GET", "/jobs", 200),
    ("HEAD", "/jobs", 200),
    ("GET", "/openapi.json", 200),
    ("GET", "/docs", 200),
    ("GET", "/static/app.js", 200),
    ("GET", "/metrics", 200),
    ("GET", "/ui/best", 200),
    ("GET", "/nowhere", 404),
    ("PUT", "/jobs", 401),
    ("POST", "/jobs", 401),
    ("GET", "/fails", 500),
    ("OPTIONS", "/jobs", 405),
]


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS)
def test_every_answer_has_security_headers_and_no_cors_headers(
    app: FastAPI, client: TestClient, method: str, path: str, status: int
) -> None:
    def fails() -> None:
        raise ZeroDivisionError

    app.add_api_route("/fails", fails)
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "x"}
    answer = client.request(method, path, headers=ELSEWHERE | asks)
    assert answer.status_code == status
    for name, value in SECURITY_HEADERS.items():
        assert len(answer.headers.get_list(name)) == 1
        if name == "Content-Security-Policy":
            assert "default-src 'none'" in answer.headers[name]
            assert "frame-ancestors 'none'" in answer.headers[name]
            assert "unsafe" not in answer.headers[name]
        else:
            assert answer.headers[name] == value
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(("method", "status"), [("PUT", 405), ("POST", 422)])
def test_refused_request_has_the_security_headers(
    client: TestClient, method: str, status: int
) -> None:
    answer = client.request(method, "/jobs")
    assert answer.status_code == status
    assert set(map(str.lower, SECURITY_HEADERS)) <= set(answer.headers)


def test_refusal_of_a_too_large_body_has_the_security_headers(client: TestClient) -> None:
    answer = client.post("/jobs", headers={"content-length": "70000000"})
    assert answer.status_code == 413
    assert set(map(str.lower, SECURITY_HEADERS)) <= set(answer.headers)
