"""Corrections of the parameters in FastAPI's OpenAPI document."""

from __future__ import annotations

from typing import Any

from api.route_helpers.best_query import query_parameters
from api.schemas.common import OPERATOR_NAMES
from templates import Operator, operators

_BEST = "/best/{operator}"
_NAMED = {"/operators/{name}": "name", "/ladders/{operator}": "operator"}
"""Paths with an operator's name in them, and the name of that parameter."""
_BLANKS = (
    "/jobs",
    "/jobs/{job_id}/trials",
    "/models",
    "/ladders/{operator}",
    "/records",
    *(f"/best/{operator.name}" for operator in operators()),
)
"""Paths for which ``?state=``, as a form sends it, means the same as no ``state``."""
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "an ETag from an earlier answer",
    "schema": {"type": "string"},
}


def correct_parameters(paths: dict[str, Any]) -> dict[str, Any]:
    """Return the document's paths with exact parameters, and a path for each operator's best."""
    exact: dict[str, Any] = {}
    for path, item in paths.items():
        if path == _BEST:
            exact |= {f"/best/{each.name}": _best(item["get"], each) for each in operators()}
        else:
            exact[path] = item
    for path, name in _NAMED.items():
        _parameter(exact, path, name)["schema"] |= OPERATOR_NAMES
    for item in exact.values():
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                parameter["schema"] = _never_null(parameter["schema"])
    for path in _BLANKS:
        for parameter in exact[path]["get"]["parameters"]:
            if parameter["in"] == "query" and not parameter["required"]:
                parameter["allowEmptyValue"] = True
    return exact


def _best(operation: dict[str, Any], operator: Operator) -> dict[str, Any]:
    said = operation | {
        "operationId": f"get_best_{operator.name}",
        "summary": f"The best for a shape of {operator.name}",
        "parameters": [*query_parameters(operator), _IF_NONE_MATCH],
        "responses": {status: dict(answer) for status, answer in operation["responses"].items()},
    }
    return {"get": said}


def _parameter(paths: dict[str, Any], path: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each for each in paths[path]["get"]["parameters"] if each["name"] == name
    )
    return found


def _never_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without null: a parameter is text or absent; "null" would be a text."""
    said = {name: value for name, value in schema.items() if (name, value) != ("default", None)}
    options = [each for each in said.get("anyOf", []) if each != {"type": "null"}]
    if len(options) != 1:
        return said
    others = {name: value for name, value in said.items() if name != "anyOf"}
    return {**others, **options[0]}
