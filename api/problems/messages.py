"""Validation errors in words for people: the field, its limit and what was sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, Field

from templates import operators
from templates.errors import sentence
from templates.errors.suggestions import suggest_field

MAX_NAME_LENGTH = 60  # characters: an unknown field may have a name of any length
MAX_SHOWN_ERRORS = 5
MAX_LISTED_ERRORS = 50  # a body has room for thousands of errors
PREDICATE_STARTS = frozenset({"must", "is", "are", "has", "can't"})
"""First words of messages that continue a sentence, whose subject is the field's name."""


class FieldError(BaseModel):
    """A field that is wrong, and why."""

    field: str = Field(examples=["workload.N"])
    message: str = Field(examples=["must be at least 1, but is 0"])


def field_errors(
    errors: Iterable[Mapping[str, Any]],
    place: str | None = None,
    of: Mapping[str, Any] = MappingProxyType({}),
) -> list[FieldError]:
    """Return pydantic's errors with the fields in the caller's own words.

    ``place`` is the part of the request that they are about, such as "body"; None if each error's
    location begins with it. ``of`` has the type that each place takes. If it is given, the first
    MAX_LISTED_ERRORS errors suggest similar names for unknown fields."""
    placed = [{**e, "loc": e["loc"] if place is None else (place, *e["loc"])} for e in errors]
    return [
        FieldError(
            field=_field(error), message=_message(error, of if at < MAX_LISTED_ERRORS else {})
        )
        for at, error in enumerate(placed)
    ]


def summary(errors: list[FieldError]) -> str:
    """Return the errors as one text, which only counts the errors beyond MAX_SHOWN_ERRORS."""
    said = [_as_sentence(error) for error in errors[:MAX_SHOWN_ERRORS]]
    if len(errors) > MAX_SHOWN_ERRORS:
        said.append(f"and {len(errors) - MAX_SHOWN_ERRORS} more")
    return "; ".join(said)


def _as_sentence(error: FieldError) -> str:
    """Return the field and the message: one sentence if the message continues the field's name."""
    continues = error.message.partition(" ")[0] in PREDICATE_STARTS
    return f"{error.field}{' ' if continues else ': '}{error.message}"


def _field(error: Mapping[str, Any]) -> str:
    """Return the path of the wrong field, as in ``workload.N``, or its place if it has no path."""
    place, *path = [shortened(str(step)) for step in error["loc"]]
    if error["type"] == "json_invalid":
        return "body"
    # In a union, pydantic adds the operator to the location, but the body has no such step. An
    # unknown field may have an operator's name, too; it is the last step, and stays.
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


def shortened(step: str) -> str:
    """Return a field's name, cut off if it is long."""
    return step if len(step) <= MAX_NAME_LENGTH else f"{step[:MAX_NAME_LENGTH]}…"


def _message(error: Mapping[str, Any], of: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return f"is no JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    place, *path = error["loc"]
    return sentence(error, _field(error).rpartition(".")[2], suggest_field(of.get(place), path))
