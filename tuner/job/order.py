"""Building an order from a caller's values, and checking it before anything is stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from pydantic import ValidationError

import templates
from db.contract.order import STRATEGIES, JobOrder, Terms
from db.contract.requests import TermsIn
from db.contract.spec import specified
from templates.errors import TemplateError, UnknownOperator, first_refused
from templates.workload import Workload
from tuner.errors import BadOrder, UnknownStrategy
from tuner.plain import plain

F = TypeVar("F", bound=Callable[..., Any])
TERMS = tuple(field.name for field in fields(Terms))


def parse_terms(given: Mapping[str, Any]) -> Terms:
    """Return the terms of an order from values by name. Raises BadOrder, UnknownStrategy."""
    try:
        return TermsIn.model_validate(terms_as_json(given))
    except ValidationError as error:
        raise _refusal(error, TermsIn) from error


def terms_as_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return terms as values of JSON. Raises BadOrder for a value that no order can hold."""
    names = given.get("templates")
    others = {name: value for name, value in given.items() if name != "templates"}
    return plain(others) | ({} if names is None else {"templates": template_names(names)})


def template_names(names: Iterable[str]) -> list[str]:
    """Return the names of templates as a list.

    Raises BadOrder for an empty list, and for a string: its letters would be taken for names.
    """
    if isinstance(names, str):
        raise BadOrder("templates", f"give a list of names, as [{names!r}], not {names!r}")
    found = list(names)
    if not found:
        raise BadOrder("templates", "give at least one name, or None for all that apply")
    return found


def split_terms(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split values by name into the terms of an order and the rest, the fields of a shape."""
    terms = {name: value for name, value in given.items() if name in TERMS}
    return terms, {name: value for name, value in given.items() if name not in TERMS}


def with_terms_signature(function: F) -> F:
    """Give a function a signature that names the terms of an order, for ``help()`` and editors.

    The function's last parameter is ``**terms``. If the function also takes the fields of a shape,
    the parameter is ``**given``, and the function passes it to :func:`split_terms`.
    """
    *others, last = inspect.signature(function).parameters.values()
    rest = [] if last.name == "terms" else [last.replace(name="shape")]
    keyword = inspect.Parameter.KEYWORD_ONLY
    named = [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=kind)
        for field, kind, _ in specified(Terms)
    ]
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*others, *named, *rest]
    )
    return function


def only_terms(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values unchanged. Raises BadOrder if one of them is no term of an order."""
    for name in given:
        if name not in TERMS:
            raise BadOrder(name, f"is no term of an order; those are {', '.join(TERMS)}")
    return given


def make_order(workload: Workload, how: Terms, kind: str) -> JobOrder:
    """Return the order for a workload on a kind of device. Raises BadOrder."""
    names = restricted(how.templates, workload.operator, kind)
    return JobOrder.of(workload, how, target=kind, templates=names)


def restricted(
    names: Iterable[str] | None, operator: str, kind: str = "auto"
) -> tuple[str, ...] | None:
    """Return the templates to which an order is restricted, None for all that apply.

    Raises BadOrder for names that are no templates of the operator on that kind of device.
    """
    try:
        given = None if names is None else template_names(names)
        return templates.restriction(given, operator, kind)
    except TemplateError as error:
        raise BadOrder("templates", str(error).removeprefix("templates ")) from error


def joined(*given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a caller's mapping and those given by name in one mapping.

    Raises BadOrder for a field that is in both.
    """
    fields: dict[str, Any] = {}
    for each in given:
        for name, value in (each or {}).items():
            if name in fields:
                raise BadOrder(name, "is given in the mapping and by name; give it once")
            fields[name] = value
    return fields


def workload_of(operator: str, *given: Mapping[str, Any] | None) -> Workload:
    """Return the workload of these fields.

    Raises BadOrder for an unknown operator, for fields that make no workload, and as :func:`joined`
    does.
    """
    fields = joined(*given)
    try:
        model = templates.operator(str(operator)).workload
        return model.model_validate(plain(fields))
    except UnknownOperator as error:
        raise BadOrder("operator", str(error)) from error
    except ValidationError as error:
        raise _refusal(error, model | TermsIn) from error


def _refusal(error: ValidationError, of: Any) -> BadOrder:
    field, why = first_refused(error, of)
    given = error.errors()[0]["input"]
    if field == "search" and isinstance(given, str):
        return UnknownStrategy(given, STRATEGIES)
    return BadOrder(field, why)
