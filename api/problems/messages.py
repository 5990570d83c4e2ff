"""What a validation error says to a person: the field, the limit and what was sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, Field

from templates import operators
from templates.errors import sentence
from templates.errors.suggestions import suggest_field

SHOWN_NAME = 60  # a field that is not known may be called anything, at any length
SHOWN_ERRORS = 5
LISTED_ERRORS = 50  # a body has room for thousands
GOES_ON = frozenset({"must", "is", "are", "has", "can't"})
"""A message that begins so has its field as its subject."""


class FieldError(BaseModel):
    """One field at fault and why."""

    field: str = Field(examples=["workload.N"])
    message: str = Field(examples=["must be at least 1, but is 0"])


def field_errors(
    errors: Iterable[Mapping[str, Any]],
    place: str | None = None,
    of: Mapping[str, Any] = MappingProxyType({}),
) -> list[FieldError]:
    """Pydantic's errors as fields in the caller's own words; ``place`` is where they came from,
    where that is not the first step of each error's location. ``of`` has the type that stands in a
    place."""
    placed = [{**e, "loc": e["loc"] if place is None else (place, *e["loc"])} for e in errors]
    return [
        FieldError(field=_field(error), message=_message(error, of if at < LISTED_ERRORS else {}))
        for at, error in enumerate(placed)
    ]


def summary(errors: list[FieldError]) -> str:
    """All of them in one sentence each, the first few only if there are many."""
    said = [_together(error) for error in errors[:SHOWN_ERRORS]]
    if len(errors) > SHOWN_ERRORS:
        said.append(f"and {len(errors) - SHOWN_ERRORS} more")
    return "; ".join(said)


def _together(error: FieldError) -> str:
    """The message goes on from the field's name, or says something by itself."""
    goes_on = error.message.partition(" ")[0] in GOES_ON
    return f"{error.field}{' ' if goes_on else ': '}{error.message}"


def _field(error: Mapping[str, Any]) -> str:
    place, *path = [shown_name(str(step)) for step in error["loc"]]
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


def shown_name(step: str) -> str:
    return step if len(step) <= SHOWN_NAME else f"{step[:SHOWN_NAME]}…"


def _message(error: Mapping[str, Any], of: Mapping[str, Any]) -> str:
    if error["type"] == "json_invalid":
        return f"is no JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    place, *path = error["loc"]
    return sentence(error, _field(error).rpartition(".")[2], suggest_field(of.get(place), path))
