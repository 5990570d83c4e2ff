"""Every error of the service as one shape: a problem document of RFC 9457."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.problems.messages import MAX_LISTED_ERRORS, FieldError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:convtune:problem:"

KINDS: dict[str, tuple[int, str]] = {
    "body-not-json": (400, "The body is no JSON"),
    "bad-request": (400, "The request could not be read"),
    "invalid-event-id": (400, "The event id is not valid"),
    "key-required": (401, "A key is required"),
    "key-not-valid": (401, "The key is not valid"),
    "scope-too-small": (403, "The key may not do this"),
    "route-not-found": (404, "There is no such route"),
    "unknown-operator": (404, "There is no such operator"),
    "unknown-job": (404, "There is no such job"),
    "unknown-model": (404, "There is no such model"),
    "unknown-artifact": (404, "There is no such artifact"),
    "signer-not-registered": (404, "No worker has registered the signer"),
    "not-found": (404, "There is no such thing"),
    "not-tuned": (404, "Nothing has been tuned for this yet"),
    "not-climbed": (404, "No ladder has been climbed yet"),
    "method-not-allowed": (405, "The route does not take this method"),
    "job-ended": (409, "The job has ended"),
    "model-ended": (409, "The model has ended"),
    "lease-lost": (409, "The job is held by another worker"),
    "body-too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body must be JSON"),
    "range-not-satisfiable": (416, "The range lies outside the artifact"),
    "invalid-request": (422, "The request is not valid"),
    "invalid-cursor": (422, "The cursor is not valid"),
    "idempotency-conflict": (422, "The Idempotency-Key was used for another order"),
    "too-many-jobs": (429, "Too many jobs are unfinished"),
    "too-many-keys": (429, "Too many Idempotency-Keys are kept"),
    "too-many-requests": (429, "Too many requests"),
    "internal-error": (500, "The service failed"),
    "corrupt-artifact": (500, "The stored artifact is damaged"),
    "busy": (503, "Too many ask for this at once"),
    "database-unavailable": (503, "The database cannot be reached"),
    "database-full": (503, "The disk of the database is full"),
    "schema-mismatch": (503, "The database has another schema"),
}
"""Status and title of each kind of problem."""


class ProblemDocument(BaseModel):
    """The body of every error's answer (RFC 9457, ``application/problem+json``)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=[f"{TYPE_PREFIX}invalid-request"])
    title: str = Field(examples=["The request is not valid"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["workload.N must be at least 1, but is 0"])
    instance: str = Field(description="the path that was requested", examples=["/jobs"])
    request_id: str | None = Field(None, description="the X-Request-ID of this request")
    errors: list[FieldError] | None = Field(
        None, description="the wrong fields, if fields are at fault"
    )


class Problem(HTTPException):
    """An error that is answered with a problem document.

    ``kind`` is a key of :data:`KINDS`. ``detail`` is a sentence that names the limit and the way
    out. ``extra`` becomes members of the document. The class is an HTTPException because FastAPI
    lets no other exception pass while it reads a body."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        self.kind = kind
        self.status, self.title = KINDS[kind]
        super().__init__(self.status, detail, dict(headers or {}))
        self.errors = list(errors[:MAX_LISTED_ERRORS])
        self.extra = extra

    def __str__(self) -> str:
        return self.detail

    def response(self, request: Request) -> Response:
        """Return the problem document as the response to this request."""
        document: dict[str, Any] = {
            "type": TYPE_PREFIX + self.kind,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": request.url.path,
            "request_id": getattr(request.state, "request_id", None),
        }
        if self.errors:
            document["errors"] = [error.model_dump() for error in self.errors]
        # ASCII, because text quoted from the request may contain lone surrogates.
        body = json.dumps(document | self.extra).encode()
        return Response(body, self.status, self.headers, MEDIA_TYPE)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route in OpenAPI for these statuses of errors."""
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }
