"""Exception handlers: which problem each exception becomes, and whether it is shown on a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from api.problems.messages import FieldError, field_errors, summary
from api.problems.problems import Problem
from api.web.pages import PageRoute, problem_page
from db.sql import errors as storage
from templates.errors import InvalidRecords, UnknownOperator

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_STORAGE: dict[type[storage.StorageError], str] = {
    storage.DatabaseUnavailable: "database-unavailable",
    storage.DatabaseFull: "database-full",
    storage.SchemaMismatch: "schema-mismatch",
    storage.NotFound: "not-found",
    storage.JobEnded: "job-ended",
    storage.ModelEnded: "model-ended",
    storage.IdempotencyConflict: "idempotency-conflict",
    storage.TooManyKeys: "too-many-keys",
    storage.BadCursor: "invalid-cursor",
    storage.QuotaExceeded: "too-many-jobs",
    storage.SignerNotRegistered: "signer-not-registered",
    storage.CorruptArtifact: "corrupt-artifact",
}
_FIELDS = {
    "idempotency-conflict": FieldError(
        field="Idempotency-Key", message="was used for another order; send a new key"
    ),
    "invalid-cursor": FieldError(
        field="cursor", message="was not made by this list; start again without one"
    ),
}
# The errors' own texts name the database's URL and host, which the caller must not learn.
_UNAVAILABLE = {
    "database-unavailable": "the database did not answer; try again shortly",
    "database-full": "the database has no room left; whoever runs the service must make room",
}
QUOTA_SECONDS = 30  # for Retry-After: a guess, since a job takes seconds to hours
_UNKNOWN = {
    "/jobs/": "unknown-job",
    "/models/": "unknown-model",
    "/artifacts/": "unknown-artifact",
}


def install(app: FastAPI) -> None:
    """Let the application answer each exception with its problem, on routes of pages as a page."""
    for kind in _TO_PROBLEM:
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    problem = to_problem(request, error)
    of_page = isinstance(request.scope.get("route"), PageRoute)
    if of_page and problem.kind != "method-not-allowed":  # only programs send other methods
        return problem_page(request, problem)
    return problem.response(request)


def to_problem(request: Request, error: Exception) -> Problem:
    """Return the problem that an error becomes. Log the error if the service is at fault."""
    kind = next(kind for kind in type(error).__mro__ if kind in _TO_PROBLEM)
    problem = _TO_PROBLEM[kind](request, error)
    if problem.status >= 500:
        request.state.log["error"] = str(error)
    return problem


def _invalid(request: Request, error: RequestValidationError) -> Problem:
    """Return the problem of a request that FastAPI could not validate."""
    found = error.errors()
    if isinstance(error.body, bytes) and error.body:  # unparsed: its type is not JSON
        return Problem(
            "unsupported-media-type",
            "the body must be JSON and say so; send it with content-type: application/json",
        )
    fields = field_errors(found, of=_types(request))
    kind = "body-not-json" if any(e["type"] == "json_invalid" for e in found) else "invalid-request"
    return Problem(kind, summary(fields), errors=fields)


def _types(request: Request) -> dict[str, Any]:
    """Return the types of the route's body and query, by their place in the request."""
    taken = request.scope["route"].dependant
    places = {"body": taken.body_params, "query": taken.query_params}
    return {place: each[0].field_info.annotation for place, each in places.items() if each}


def _invalid_records(request: Request, error: InvalidRecords) -> Problem:
    fields = [
        FieldError(field=f"records.{fault.line}.{fault.field}", message=fault.message)
        for fault in error.faults
    ]
    return Problem("invalid-request", str(error), errors=fields)


def _of_storage(request: Request, error: storage.StorageError) -> Problem:
    kind = next((_STORAGE[base] for base in type(error).__mro__ if base in _STORAGE), None)
    if kind is None:
        return Problem(
            "internal-error", "the database refused the request; the service's log has the reason"
        )
    if kind == "not-found":
        path = request.url.path
        kind = next((name for start, name in _UNKNOWN.items() if path.startswith(start)), kind)
    if kind in _UNAVAILABLE:
        return Problem(kind, _UNAVAILABLE[kind], headers={"Retry-After": "5"})
    if isinstance(error, storage.QuotaExceeded):
        return Problem(
            kind,
            f"{error} (TUNER_MAX_UNFINISHED_JOBS)",
            headers={"Retry-After": str(QUOTA_SECONDS)},
            limit={"unfinished_jobs": error.limit},
        )
    if isinstance(error, storage.TooManyKeys):
        return Problem(kind, str(error), limit={"idempotency_keys": error.limit})
    fields = [_FIELDS[kind]] if kind in _FIELDS else []
    return Problem(kind, str(error), errors=fields)


def _http(request: Request, error: HTTPException) -> Problem:
    """Return the problem of an error that Starlette or FastAPI raised itself."""
    path = request.url.path
    if error.status_code == 404:
        return Problem("route-not-found", f"there is nothing at {path}; GET / names the routes")
    if error.status_code == 405:
        allowed = ", ".join(_allowed(request))
        return Problem(
            "method-not-allowed",
            f"{path} does not take {request.method}; it takes {allowed}",
            headers={"Allow": allowed},
        )
    return Problem(
        "bad-request", f"{error.detail}; send one JSON object of ordinary size and depth"
    )


def _allowed(request: Request) -> list[str]:
    """Return the methods that the request's path takes."""

    def takes(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)

    # GET /jobs/nearest matches the route of a job, too, but the OpenAPI document has only its POST.
    written_out = request.app.openapi()["paths"].get(request.scope["path"])
    methods = _METHODS if written_out is None else map(str.upper, written_out)
    taken = {method for method in methods if takes(method)}
    if "GET" in taken:
        taken.add("HEAD")
    return [method for method in _METHODS if method in taken]


_TO_PROBLEM: dict[type[Exception], Callable[[Request, Any], Problem]] = {
    Problem: lambda request, problem: problem,
    RequestValidationError: _invalid,
    UnknownOperator: lambda request, error: Problem("unknown-operator", str(error)),
    InvalidRecords: _invalid_records,
    storage.StorageError: _of_storage,
    HTTPException: _http,
}
