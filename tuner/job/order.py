"""An order to tune a shape, checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import templates
from templates.errors import TemplateError, UnknownOperator
from templates.workload import Workload
from tuner.errors import BadOrder, UnknownStrategy
from tuner.plain import plain

if TYPE_CHECKING:
    from db.queue.jobs import JobOrder

MAX_TRIALS = 100_000
MAX_SEED = 2**31 - 1
MAX_BUDGET_SECONDS = 604_800  # a week
"""The same limits as the service's."""
STRATEGIES = ("xgb", "evolutionary", "random", "grid", "metaschedule")
"""What :func:`tuner.search.strategies` names, for those who do not wait for NumPy."""


class Terms(BaseModel):
    """How to search for a workload's best."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    target: Literal["auto", "cpu", "cuda"] = "auto"
    trials: int = Field(64, ge=1, le=MAX_TRIALS)
    search: str = STRATEGIES[0]
    on_existing: Literal["reuse", "retune"] = "reuse"
    budget_seconds: float | None = Field(None, gt=0, le=MAX_BUDGET_SECONDS)
    seed: int | None = Field(None, ge=0, le=MAX_SEED)
    patience: int | None = Field(None, ge=1, le=MAX_TRIALS)
    warm_start: bool = True
    templates: list[str] | None = None

    def of(self, workload: Workload, kind: str) -> JobOrder:
        """The order for that workload on that kind of device. Raises BadOrder."""
        from db.queue.jobs import JobOrder

        named = self.model_dump(exclude={"target", "templates"})
        return JobOrder(
            operator=workload.operator,
            workload_key=workload.key,
            workload=workload.model_dump(),
            target=kind,
            templates=restricted(self.templates, workload.operator, kind),
            **named,
        )


def terms(given: Mapping[str, Any]) -> Terms:
    """Raises BadOrder, UnknownStrategy."""
    try:
        names = given.get("templates")
        others = {name: value for name, value in given.items() if name != "templates"}
        wanted = {"templates": None if names is None else list(names)}
        found = Terms.model_validate(plain(others) | wanted)
    except ValidationError as error:
        raise _refusal(error) from error
    if found.search not in STRATEGIES:
        raise UnknownStrategy(found.search, STRATEGIES)
    return found


def restricted(
    names: Iterable[str] | None, operator: str, kind: str = "auto"
) -> tuple[str, ...] | None:
    """The templates that an order is restricted to. Raises BadOrder."""
    try:
        return templates.restriction(names, operator, kind)
    except TemplateError as error:
        raise BadOrder("templates", str(error)) from error


def workload_of(operator: str, *given: Mapping[str, Any] | None) -> Workload:
    """The workload of those fields, a later mapping's before an earlier one's. Raises BadOrder."""
    fields = {name: value for each in given if each for name, value in each.items()}
    try:
        return templates.operator(str(operator)).workload.model_validate(plain(fields))
    except UnknownOperator as error:
        raise BadOrder("operator", str(error)) from error
    except ValidationError as error:
        raise _refusal(error) from error


def _refusal(error: ValidationError) -> BadOrder:
    first = error.errors()[0]
    field = str(first.get("ctx", {}).get("field") or first["loc"][0])
    found = "" if isinstance(first["input"], Mapping) else f", but it is {first['input']!r:.80}"
    return BadOrder(field, first["msg"] + found)
