"""FastAPI's OpenAPI document, with additions that FastAPI can't know.

They are problem documents, a job's events, links, and which routes need a key at present."""

from __future__ import annotations

from threading import Lock
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from api.access.access import Access
from api.openapi.links import add_links
from api.openapi.parameters import correct_parameters
from api.problems.problems import ProblemDocument
from api.schemas.events import BestEvent, ProgressEvent
from api.schemas.jobs import JobView
from api.schemas.trials import TrialView
from templates.records.record import RecordLine

_KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "a key from `tuner keys create`; a route's requirement names the least "
    "scope that will do, of read, submit and admin",
}
_TEMPLATE = "#/components/schemas/{model}"
_EVENTS: dict[str, type[BaseModel]] = {
    "state": JobView,
    "trial": TrialView,
    "best": BestEvent,
    "progress": ProgressEvent,
}


_document: dict[str, Any] = {}
"""The document without keys. All applications of a process share it, because they have the same
routes and making it takes half a second."""
_lock = Lock()


def install(app: FastAPI) -> None:
    """Let ``app.openapi()`` return the completed document, with the scopes that routes need.

    The scopes depend on the keys at the time of the call."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        with _lock:
            if not _document:
                made = generate()
                _complete(made)
                _document.update(made)
        access: Access | None = getattr(app.state, "access", None)  # None before the start
        return _document if access is None else _with_security(_document, access)

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend it


def _complete(document: dict[str, Any]) -> None:
    """Complete FastAPI's document in place, except for the keys that routes need."""
    answers: list[type[BaseModel]] = [ProblemDocument, *_EVENTS.values()]
    _, schemas = models_json_schema(
        [*((model, "serialization") for model in answers), (RecordLine, "validation")],
        ref_template=_TEMPLATE,
    )
    document["components"]["schemas"].update(schemas["$defs"])
    document["components"]["securitySchemes"] = {"key": _KEY}
    paths = document["paths"] = correct_parameters(document["paths"])
    paths["/jobs/{job_id}/events"]["get"]["responses"]["200"] = _events_response()
    add_links(paths)


def _with_security(document: dict[str, Any], access: Access) -> dict[str, Any]:
    """Return a copy of the document that says which scope each route needs.

    The shared document stays as it is, because keys come and go."""
    paths = {
        path: {
            method: _with_scope(said, access.needs_key(method, path))
            for method, said in item.items()
        }
        for path, item in document["paths"].items()
    }
    return {**document, "paths": paths}


def _with_scope(operation: dict[str, Any], scope: str | None) -> dict[str, Any]:
    return operation if scope is None else {**operation, "security": [{"key": [scope]}]}


def _events_response() -> dict[str, Any]:
    """Return the answer of the events route.

    Its schema is that of a single event, because OpenAPI 3.1 can't describe a stream of them."""
    event = {"oneOf": _event_schemas()}
    data = ", ".join(f"{name}: {model.__name__}" for name, model in _EVENTS.items())
    return {
        "description": f"Events, and the model of each one's data ({data})",
        "content": {"text/event-stream": {"schema": event}},
    }


def _event_schemas() -> list[dict[str, Any]]:
    return [
        {
            "type": "object",
            "required": ["event", "data", "id"],
            "properties": {
                "event": {"const": name},
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": {"$ref": _TEMPLATE.format(model=model.__name__)},
                },
                "id": {"type": "string", "examples": ["17.1.2.8c736521"]},
            },
        }
        for name, model in _EVENTS.items()
    ]
