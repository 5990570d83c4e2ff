"""What a validation error says to a person: the field, the limit and what was sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, Field

from templates import operators

SHOWN_INPUT = 60
SHOWN_NAME = 60  # a field that is not known may be called anything, at any length
SHOWN_ERRORS = 5

_NOT_SHOWN = {"missing", "extra_forbidden", "union_tag_not_found", "json_invalid"}
_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this request; remove it or correct its name",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer of at most 19 digits",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} item(s)",
    "too_long": "must have at most {max_length} items",
    "list_type": "must be a list",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be a JSON object",
    "model_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "union_tag_not_found": "is required",
    "union_tag_invalid": "must be one of {expected_tags}",
}


class FieldError(BaseModel):
    """One field at fault and why."""

    field: str = Field(examples=["workload.N"])
    message: str = Field(examples=["must be at least 1, but is 0"])


def field_errors(errors: Iterable[Mapping[str, Any]], place: str | None = None) -> list[FieldError]:
    """Pydantic's errors as fields in the caller's own words; ``place`` is where they came from,
    where that is not the first step of each error's location."""
    placed = [{**e, "loc": e["loc"] if place is None else (place, *e["loc"])} for e in errors]
    return [FieldError(field=_field(error), message=_message(error)) for error in placed]


def summary(errors: list[FieldError]) -> str:
    """All of them in one sentence each, the first few only if there are many."""
    said = [f"{error.field} {error.message}" for error in errors[:SHOWN_ERRORS]]
    if len(errors) > SHOWN_ERRORS:
        said.append(f"and {len(errors) - SHOWN_ERRORS} more")
    return "; ".join(said)


def _field(error: Mapping[str, Any]) -> str:
    place, *path = [_name(str(step)) for step in error["loc"]]
    if error["type"] == "json_invalid":
        return "body"
    # Unions are told apart by their operator, which is no step of the body. A field that is not
    # known may be called so, and is the last step.
    tag = 2 if path[:1] == ["workloads"] else 0
    unknown = error["type"] == "extra_forbidden" and len(path) == tag + 1
    names = {operator.name for operator in operators()}
    if place == "body" and not unknown and len(path) > tag and path[tag] in names:
        del path[tag]
    context = error.get("ctx", {})
    if "discriminator" in context:
        path.append(context["discriminator"].strip("'"))
    elif "field" in context:
        path.append(context["field"])
    return ".".join(path) or place


def _name(step: str) -> str:
    return step if len(step) <= SHOWN_NAME else f"{step[:SHOWN_NAME]}…"


def _message(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "json_invalid":
        return f"is no JSON: {context['error']} at character {error['loc'][-1]}"
    if kind not in _SENTENCES:
        message: str = error["msg"]
        field = _field(error).rpartition(".")[2]
        return message.removeprefix(f"{field} ")
    sentence = _SENTENCES[kind].format(**context)
    if kind in _NOT_SHOWN:
        return sentence
    sent = context["tag"] if kind == "union_tag_invalid" else error["input"]
    return f"{sentence}, but is {_shown(sent)}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bytes):
        return f"{len(value)} bytes of another type"
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN_INPUT else f"{text[:SHOWN_INPUT]}…"
