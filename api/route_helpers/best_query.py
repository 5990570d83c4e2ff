"""The query of ``/best/{operator}?M=…&N=…`` as a workload and filters, or all of its errors."""

from __future__ import annotations

import re
from typing import Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from starlette.datastructures import QueryParams

from api.problems.messages import MAX_LISTED_ERRORS, FieldError, field_errors, summary
from api.problems.problems import Problem
from api.route_helpers.strict_query import repeated_fields
from templates import Operator, restriction, template_names
from templates.errors import UnknownTemplate
from templates.errors.suggestions import suggest_field
from templates.workload import Workload, is_extent

Model = TypeVar("Model", bound=BaseModel)

EMPTY = "is empty; give a value, or leave it out"
_INTEGER = re.compile(r"[+-]?[0-9]{1,640}")  # int() may refuse more digits
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class BestFilters(BaseModel):
    """What a query may ask of a best, besides the workload."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Literal["auto", "cpu", "cuda"] = Field("auto", description="kind of device; auto: any")
    device: str | None = Field(
        None, min_length=1, max_length=200, description="only this device, by its name"
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="most CPU threads that the best may use; bests on a GPU use none",
    )
    parallel: bool = Field(
        False,
        description="on a CPU, the best on several threads if there is one, even if a best on one "
        "thread is faster by itself: for programs that keep all threads busy",
    )
    templates: str | None = Field(
        None,
        max_length=1000,
        description="only bests of these templates; separate names by commas",
    )
    match: Literal["exact", "nearest", "predicted"] = Field(
        "exact",
        description="exact: only what was measured for this shape. If there is none, nearest gives "
        "the configuration of the closest tuned shape, and predicted answers 404 with an order "
        "(tune) that has a worker try the configurations that are expected to be fastest",
    )

    @property
    def kind(self) -> str | None:
        """The kind of device that is asked for. None: any."""
        return None if self.target == "auto" else self.target

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the templates that are asked for, sorted. None: any."""
        if self.templates is None:
            return None
        return tuple(sorted({name.strip() for name in self.templates.split(",")}))

    @classmethod
    def read(cls, operator: Operator, query: QueryParams) -> tuple[Workload, Self]:
        """Return the workload and the filters. Raise Problem, which names every wrong field.

        An empty field of the workload counts as not given. An empty filter is refused: it may come
        from an unset variable in a script whose author does not want the best of any device."""
        given = {name: text for name, text in query.items() if text != ""}
        filters = {name: given.pop(name) for name in cls.model_fields if name in given}
        fields = operator.workload.model_fields
        wrong = repeated_fields(query) + _unknown(given, operator)
        wrong += [
            FieldError(field=name, message=EMPTY)
            for name in cls.model_fields
            if query.get(name) == ""
        ]
        values = {name: _value(fields[name], given[name]) for name in fields if name in given}
        workload = _validated(operator.workload, values, wrong)
        chosen = _validated(cls, filters, wrong)
        if chosen is not None:
            wrong += _unknown_templates(chosen, operator)
        if wrong or workload is None or chosen is None:
            raise Problem("invalid-request", summary(wrong), errors=wrong)
        return workload, chosen


def query_parameters(operator: Operator) -> list[dict[str, Any]]:
    """Return the query of an operator's best as OpenAPI parameters."""
    workload = operator.workload.model_json_schema()
    required = set(workload["required"])
    fields = workload["properties"] | BestFilters.model_json_schema()["properties"]
    name = f"({'|'.join(template_names(operator.name))})"
    fields["templates"] |= {"type": "string", "pattern": f"^{name}(,{name})*$"}
    del fields["templates"]["anyOf"]
    return [
        {
            "name": name,
            "in": "query",
            **({"style": "form", "explode": False} if _is_list(field) else {}),
            "required": name in required,
            "description": field.pop("description"),
            "schema": field,
            **({"example": operator.example[name]} if name in operator.example else {}),
        }
        for name, field in fields.items()
    ]


def _is_list(schema: dict[str, Any]) -> bool:
    return any(each.get("type") == "array" for each in schema.get("anyOf", []))


def _unknown(given: dict[str, str], operator: Operator) -> list[FieldError]:
    """Return an error for each field that the operator's query does not have."""
    fields, found = operator.workload.model_fields, list[FieldError]()
    known = f"known are {', '.join([*fields, *BestFilters.model_fields])}"
    for name in given:
        if name not in fields:
            listed = len(found) < MAX_LISTED_ERRORS
            meant = suggest_field(operator.workload | BestFilters, [name]) if listed else ""
            message = f"is not known for {operator.name}; {meant or known}"
            found.append(FieldError(field=name, message=message))
    return found


def _unknown_templates(filters: BestFilters, operator: Operator) -> list[FieldError]:
    try:
        restriction(filters.names, operator.name)
    except UnknownTemplate as error:
        return [FieldError(field="templates", message=str(error).removeprefix("templates "))]
    return []


def _validated(model: type[Model], values: dict[str, Any], wrong: list[FieldError]) -> Model | None:
    """Return the values as a model, or add their errors to ``wrong`` and return None."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        wrong += field_errors(error.errors(), place="query")
        return None


def _value(field: FieldInfo, text: str) -> Any:
    """Return the text as a JSON value of this field.

    If it is none, return the text. The strict model then refuses it and names the field."""
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    whole = is_extent(field.annotation) or any(isinstance(choice, int) for choice in choices)
    if whole and _INTEGER.fullmatch(text):
        return int(text)
    if field.annotation is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if field.annotation is float and _NUMBER.fullmatch(text):
        return float(text)
    return text
