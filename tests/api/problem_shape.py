"""The common shape of the service's errors: RFC 9457 problem documents."""

from typing import Any

from httpx2 import Response


def problem(response: Response, status: int, kind: str, *fields: str) -> dict[str, Any]:
    """Assert that the response is a problem of this status, kind and faulty fields; return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail", "instance", "request_id"} <= set(document)
    assert document["type"] == f"urn:convtune:problem:{kind}", document
    assert document["status"] == status
    assert document["title"]
    assert " " in document["detail"]
    assert document["instance"] == response.request.url.path
    assert document["request_id"] == response.headers["x-request-id"]
    errors = document.get("errors", [])
    assert [error["field"] for error in errors] == list(fields)
    assert all(set(error) == {"field", "message"} for error in errors)
    assert all(error["message"] in document["detail"] for error in errors[:5])
    return document
