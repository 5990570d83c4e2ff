"""The OpenAPI document: FastAPI's, with the problem document and the events of a job in it."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from api.problems import ProblemDocument
from api.schemas.events import BestEvent, ProgressEvent
from api.schemas.jobs import JobView
from api.schemas.trials import TrialView

_TEMPLATE = "#/components/schemas/{model}"
_EVENTS: dict[str, type[BaseModel]] = {
    "state": JobView,
    "trial": TrialView,
    "best": BestEvent,
    "progress": ProgressEvent,
}


def install(app: FastAPI) -> None:
    generate = app.openapi
    models: list[type[BaseModel]] = [ProblemDocument, *_EVENTS.values()]

    def openapi() -> dict[str, Any]:
        document = generate()
        _, schemas = models_json_schema(
            [(model, "serialization") for model in models], ref_template=_TEMPLATE
        )
        document["components"]["schemas"].update(schemas["$defs"])
        operation = document["paths"]["/jobs/{job_id}/events"]["get"]
        operation["responses"]["200"] = _stream()
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend it


def _stream() -> dict[str, Any]:
    """``itemSchema`` is how OpenAPI 3.2 tells events; ``schema`` is for readers of 3.1."""
    kinds = [
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
    data = ", ".join(f"{name}: {model.__name__}" for name, model in _EVENTS.items())
    return {
        "description": f"Events, and the model of each one's data ({data})",
        "content": {
            "text/event-stream": {"schema": {"type": "string"}, "itemSchema": {"oneOf": kinds}}
        },
    }
