"""The OpenAPI document: FastAPI's, with the problem document in it."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from api.problems import ProblemDocument

_TEMPLATE = "#/components/schemas/{model}"


def install(app: FastAPI) -> None:
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        _, schemas = models_json_schema(
            [(ProblemDocument, "serialization")], ref_template=_TEMPLATE
        )
        document["components"]["schemas"].update(schemas["$defs"])
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to extend it
