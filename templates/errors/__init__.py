"""Errors that `templates` raises; each docstring tells the user what to do.

TemplateError
├── InvalidConfig     the configuration is not one of the space's
├── InvalidRecords    a log holds records that can't be imported
├── InvalidSpace      a template declared its space wrongly
├── SpaceTooLarge     a space has more combinations than may be enumerated
├── UnknownOperator   no operator has that name
└── UnknownTemplate   an order names a template that does not exist

:func:`first_refused` and :func:`sentence` put pydantic's errors into the project's own words.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from templates.errors.suggestions import suggest_field

SHOWN_INPUT = 60

_NOT_SHOWN = {"missing", "union_tag_not_found", "too_short", "too_long"}
_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this request",
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
    "bool_parsing": "must be true or false",
    "string_type": "must be a string",
    "string_unicode": "must be a string of Unicode characters",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} item(s), but has {actual_length}",
    "too_long": "must have at most {max_length} items, but has {actual_length}",
    "list_type": "must be a list",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be a JSON object",
    "model_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "union_tag_not_found": "is required",
    "union_tag_invalid": "must be one of {expected_tags}",
}


class TemplateError(Exception):
    """Base of every error that `templates` raises."""


class InvalidConfig(TemplateError):
    """Use one of the values named in the message, or leave out the knob it names."""


class InvalidSpace(TemplateError):
    """Correct the declaration that the message names; the template is at fault, not its user."""


@dataclass(frozen=True)
class RecordFault:
    """What is wrong with one record: its line in the log, counted from 1, the field, and why."""

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"record {self.line}: {self.field}: {self.message}"


class InvalidRecords(TemplateError):
    """Correct or remove the records that the message names, and import the log again."""

    def __init__(self, faults: Sequence[RecordFault], shown: int = 5) -> None:
        said = [str(fault) for fault in faults[:shown]]
        if len(faults) > shown:
            said.append(f"and {len(faults) - shown} more")
        super().__init__("; ".join([*said, "nothing was imported"]))
        self.faults = tuple(faults)


class SpaceTooLarge(TemplateError):
    """Declare fewer values, or tell the constraints which knobs they read (`reads=`)."""


class UnknownOperator(TemplateError):
    """Ask for one of the operators that the message names."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown operator {name!r}; known are: {', '.join(sorted(known))}")
        self.name = name


class UnknownTemplate(TemplateError):
    """Name some of the templates that the message names."""

    def __init__(
        self, names: Iterable[str], operator: str, kind: str, known: Iterable[str]
    ) -> None:
        where = "" if kind == "auto" else f" on {kind}"
        super().__init__(
            f"templates names {', '.join(map(repr, names))}, but {operator}{where} has no such "
            f"template; choose from {', '.join(known)}"
        )


def first_refused(error: ValidationError, of: Any = None) -> tuple[str, str]:
    """Return the first field that pydantic refuses, as a dotted path, and what is wrong with it.

    An empty name is written as ''. The path is empty if the fault concerns no field. ``of`` is the
    model that was validated, or a union of it with other models whose fields the user may have
    meant. If the field does not exist, a similar name is looked up in ``of``.
    """
    first = error.errors(include_url=False)[0]
    steps = list(first["loc"])
    if "field" in first.get("ctx", {}):
        steps[-1:] = [first["ctx"]["field"]]
    last = str(steps[-1]) if steps else ""
    path = ".".join(str(step) or "''" for step in steps)
    return path, sentence(first, last, suggest_field(of, first["loc"]))


def sentence(error: Mapping[str, Any], field: str, meant: str = "") -> str:
    """Return one of pydantic's errors as the rest of a sentence that begins with the field's name.

    ``meant`` is the question "did you mean …?", which is added if there is no such field.
    """
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind not in _SENTENCES:
        message: str = error["msg"]
        return message.removeprefix(f"{field} ")
    said = _SENTENCES[kind].format(**context)
    if kind == "string_pattern_mismatch":
        said = _without(error["input"], context["pattern"]) or said
    if kind == "extra_forbidden":
        return f"{said}; {meant or 'remove it or correct its name'}"
    if kind in _NOT_SHOWN:
        return said
    given = error["input"]
    if kind == "union_tag_invalid":
        given = given[context["discriminator"].strip("'")]
    return f"{said}, but is {_shown(given)}"


def _without(text: str, pattern: str) -> str | None:
    """Return a sentence that names the first character of the text that its pattern refuses.

    Return None if the pattern does not begin with a class of refused characters. If the text has no
    such character, the pattern refuses it because it is blank.
    """
    allowed = re.match(r"\^(\[\^[^]]+\])\*", pattern)
    if allowed is None:
        return None
    refused = [c for c in text if not re.fullmatch(allowed[1], c)]
    return f"must not have {refused[0]!a} in it" if refused else "must have more than blanks in it"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bytes):
        return f"{len(value)} bytes of another type"
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN_INPUT else f"{text[:SHOWN_INPUT]}…"
