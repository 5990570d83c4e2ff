"""Forms to order a job or search for a best, with fields from the JSON Schemas of orders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from api.problems.messages import FieldError, field_errors
from api.schemas.non_null_schema import non_null_schema
from api.schemas.orders.job import Order, OrderBase
from db.contract.job import Job
from db.contract.order import PREDICTION, terms_of
from db.contract.requests import TermsIn
from templates import Operator
from templates.workload import Workload, in_text

MAX_EXTENT = 2**31
FIRST_OPTIONS = ("target", "trials", "search")  # the others stand under "more"
_INTEGER = re.compile(r"[+-]?\d{1,300}")  # float() takes them, too
_LABELS = {
    "target": "device",
    "for_device": "only this device, by its name",
    "on_existing": "if it is tuned already",
    "budget_seconds": "time limit, seconds",
    "seed": "random seed",
    "max_error": "largest error",
    "patience": "stop after trials without gain",
    "warm_start": "learn from other shapes",
    "templates": "templates, separated by commas",
    "baselines": "compare with",
}
_adapter: TypeAdapter[OrderBase] = TypeAdapter(Annotated[Order, Field(discriminator="operator")])


@dataclass(frozen=True)
class FormField:
    """One input of a form, as the HTML files draw it."""

    name: str  # in the form, such as "workload.M"
    label: str
    kind: str  # "number", "choice" or "text"
    value: str
    hint: str
    limits: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    whole: bool = False
    required: bool = False
    error: str | None = None


@dataclass(frozen=True)
class OrderForm:
    """The form that orders a job."""

    operator: str
    workload: list[FormField]
    options: list[FormField]
    more: list[FormField]
    errors: list[FieldError]  # that belong to no field of the form

    @property
    def wrong(self) -> list[FormField]:
        """The fields that have an error."""
        return [f for f in (*self.workload, *self.options, *self.more) if f.error]


def order_form(
    operator: Operator,
    values: Mapping[str, str] | None = None,
    errors: list[FieldError] | None = None,
) -> OrderForm:
    """Return the form with the operator's example, or with ``values`` that were sent.

    ``errors`` are shown at their fields."""
    given = _example(operator) if values is None else values
    said = {error.field: error.message for error in errors or []}
    workload = shape_fields(operator, given, said, "workload.")
    options = [
        form_field(name, schema, given.get(name), said.get(name))
        for name, schema in _properties(TermsIn).items()
    ]
    shown = {field.name for field in (*workload, *options)}
    rest = [error for error in errors or [] if error.field not in shown]
    first = [field for field in options if field.name in FIRST_OPTIONS]
    more = [field for field in options if field.name not in FIRST_OPTIONS]
    first.sort(key=lambda field: FIRST_OPTIONS.index(field.name))
    return OrderForm(operator.name, workload, first, more, rest)


def shape_fields(
    operator: Operator,
    values: Mapping[str, str],
    errors: Mapping[str, str],
    prefix: str = "",
    *,
    blank: bool = False,
) -> list[FormField]:
    """Return the workload's fields: the operator's own, then those that all operators have.

    ``prefix`` precedes each name in ``values``, ``errors`` and the form. ``blank`` is for searches:
    a field may be empty, and is empty unless a value is given."""
    model = operator.workload
    properties = _properties(model)
    if blank:  # nobody searches for a list of numbers
        properties = {name: each for name, each in properties.items() if not _is_list(each)}
    fields = [
        form_field(
            prefix + name,
            schema,
            values.get(prefix + name, "" if blank else None),
            errors.get(prefix + name),
            required=model.model_fields[name].is_required() and not blank,
        )
        for name, schema in properties.items()
    ]
    own = {prefix + name for name in model.__annotations__}
    return sorted(fields, key=lambda field: field.name not in own)


def read_order(operator: str, values: Mapping[str, str]) -> OrderBase | list[FieldError]:
    """Return the order of a sent form, or its errors. An empty field counts as not sent."""
    order: dict[str, Any] = {"operator": operator, "workload": {}}
    terms = _properties(TermsIn)
    for name, text in values.items():
        if text.strip() == "":
            continue
        if name.startswith("workload."):
            order["workload"][name.removeprefix("workload.")] = parse_value(text)
        elif name != "operator":
            order[name] = _sent(text, terms.get(name, {}))
    try:
        return _adapter.validate_python(order)
    except ValidationError as error:
        return field_errors(error.errors(), place="body")


def prediction_fields(
    workload: Workload, target: str, device: str | None, names: Sequence[str] | None
) -> dict[str, str]:
    """Return the fields of a form that orders the job that ``match=predicted`` waits for."""
    shape = {f"workload.{name}": value for name, value in workload.explicit_fields.items()}
    terms = {**PREDICTION, "target": target, "for_device": device, "templates": names}
    return {name: in_text(value) for name, value in (shape | terms).items() if value is not None}


def read_shape(
    operator: Operator, texts: Mapping[str, str]
) -> tuple[dict[str, int | float | str], dict[str, str]]:
    """Return the parts of a shape to search for, and the errors of the other parts, by field."""
    wanted: dict[str, int | float | str] = {}
    wrong: dict[str, str] = {}
    for name, declared in _properties(operator.workload).items():
        if name not in texts or _is_list(declared):
            continue
        value, schema = parse_value(texts[name]), non_null_schema(declared)
        if schema.get("type") == "number" and isinstance(value, int | float):
            wanted[name] = float(value)
        elif schema.get("type") == "boolean":
            if isinstance(value, bool):
                wanted[name] = value
            else:
                wrong[name] = "must be true or false"
        elif "enum" in schema:
            if value in schema["enum"]:
                wanted[name] = value
            else:
                wrong[name] = f"must be one of {', '.join(map(str, schema['enum']))}"
        elif type(value) is int and abs(value) < MAX_EXTENT:
            wanted[name] = value
        else:
            wrong[name] = f"must be a whole number in digits, at most {MAX_EXTENT - 1}"
    return wanted, wrong


def form_values(job: Job) -> dict[str, str]:
    """Return a job's order as the values that the form would send."""
    values = {f"workload.{name}": in_text(value) for name, value in job.workload.items()}
    options = terms_of(job)
    if job.state == "succeeded":
        options["on_existing"] = "retune"  # reuse would only show this job again
    values |= {
        name: in_text(value) if isinstance(value, str | int | float) else ", ".join(value)
        for name, value in options.items()
        if value is not None
    }
    return values


def _sent(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the JSON value of an input whose property has this schema."""
    kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
    if _is_list(schema):
        return [each.strip() for each in text.split(",")]
    return text.strip() if "string" in kinds else parse_value(text)


def _is_list(schema: Mapping[str, Any]) -> bool:
    return any(each.get("type") == "array" for each in schema.get("anyOf", [schema]))


def parse_value(text: str) -> Any:
    """Return a form's text as a number or a boolean, or as it is if it is neither."""
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def form_field(
    name: str,
    schema: Mapping[str, Any],
    value: str | None,
    error: str | None,
    *,
    required: bool = False,
) -> FormField:
    """Return the input for one property of a JSON Schema. ``value`` None shows its default."""
    merged = non_null_schema(schema)
    default = merged.get("default")
    choices = merged.get("enum") or ([True, False] if merged.get("type") == "boolean" else [])
    number = merged.get("type") in ("integer", "number")
    low = merged.get("minimum", merged.get("exclusiveMinimum"))
    high = merged.get("maximum", merged.get("exclusiveMaximum"))
    short = name.rpartition(".")[2]
    free = short == "max_error"  # blank means its default, which depends on the dtype
    shown = value if value is not None else "" if default is None or free else in_text(default)
    return FormField(
        name=name,
        label=_LABELS.get(short, short.replace("_", " ")),
        kind="choice" if choices else "number" if number else "text",
        value=shown,
        hint=merged.get("description", ""),
        limits=_limits(low, high),
        choices=tuple(in_text(choice) for choice in choices),
        minimum=low,
        maximum=high,
        whole=merged.get("type") == "integer",
        required=required,
        error=error,
    )


def _limits(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f"at least {low:,}"
    return f"{0 if low is None else low:,} to {high:,}"


def _properties(model: Any) -> dict[str, dict[str, Any]]:
    schema = model.model_json_schema()
    found: dict[str, dict[str, Any]] = schema["properties"]
    return found


def _example(operator: Operator) -> dict[str, str]:
    return {f"workload.{name}": in_text(value) for name, value in operator.example.items()}
