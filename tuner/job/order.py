"""An order to tune a shape, checked before anything is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from pydantic import ValidationError

import templates
from db.contract.order import STRATEGIES, JobOrder, Terms
from db.contract.sent import SentTerms
from db.contract.spec import specified
from templates.errors import TemplateError, UnknownOperator, first_refused
from templates.workload import Workload
from tuner.errors import BadOrder, UnknownStrategy
from tuner.plain import plain

F = TypeVar("F", bound=Callable[..., Any])
TERMS = tuple(field.name for field in fields(Terms))


def terms(given: Mapping[str, Any]) -> Terms:
    """Raises BadOrder, UnknownStrategy."""
    try:
        return SentTerms.model_validate(sendable(given))
    except ValidationError as error:
        raise _refusal(error, SentTerms) from error


def sendable(given: Mapping[str, Any]) -> dict[str, Any]:
    """Terms as JSON has them. Raises BadOrder for what no order can hold."""
    names = given.get("templates")
    others = {name: value for name, value in given.items() if name != "templates"}
    return plain(others) | ({} if names is None else {"templates": listed(names)})


def listed(names: Iterable[str]) -> list[str]:
    """Templates' names. Raises BadOrder for a single one, which is letters if it is taken so, and
    for none."""
    if isinstance(names, str):
        raise BadOrder("templates", f"give a list of names, as [{names!r}], not {names!r}")
    found = list(names)
    if not found:
        raise BadOrder("templates", "give at least one name, or None for all that apply")
    return found


def split(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The terms among what is given by name, and the others: fields of a shape."""
    said = {name: value for name, value in given.items() if name in TERMS}
    return said, {name: value for name, value in given.items() if name not in TERMS}


def taking_terms(function: F) -> F:
    """The function, whose ``**given`` go to :func:`split`, with a signature that names them.
    ``**terms`` are terms alone."""
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
    """The same. Raises BadOrder if one of them is no term."""
    for name in given:
        if name not in TERMS:
            raise BadOrder(name, f"is no term of an order; those are {', '.join(TERMS)}")
    return given


def ordered(workload: Workload, how: Terms, kind: str) -> JobOrder:
    """The order for that workload on that kind of device. Raises BadOrder."""
    names = restricted(how.templates, workload.operator, kind)
    return JobOrder.of(workload, how, target=kind, templates=names)


def restricted(
    names: Iterable[str] | None, operator: str, kind: str = "auto"
) -> tuple[str, ...] | None:
    """The templates that an order is restricted to. Raises BadOrder."""
    try:
        given = None if names is None else listed(names)
        return templates.restriction(given, operator, kind)
    except TemplateError as error:
        raise BadOrder("templates", str(error).removeprefix("templates ")) from error


def workload_of(operator: str, *given: Mapping[str, Any] | None) -> Workload:
    """The workload of those fields, a later mapping's before an earlier one's. Raises BadOrder."""
    fields = {name: value for each in given if each for name, value in each.items()}
    try:
        model = templates.operator(str(operator)).workload
        return model.model_validate(plain(fields))
    except UnknownOperator as error:
        raise BadOrder("operator", str(error)) from error
    except ValidationError as error:
        raise _refusal(error, model | SentTerms) from error


def _refusal(error: ValidationError, of: Any) -> BadOrder:
    field, why = first_refused(error, of)
    given = error.errors()[0]["input"]
    if field == "search" and isinstance(given, str):
        return UnknownStrategy(given, STRATEGIES)
    return BadOrder(field, why)
