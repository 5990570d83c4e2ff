"""What ``POST /jobs`` takes: one model for each operator, told apart by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, Union

from pydantic import BaseModel, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from db.contract.order import JobOrder, Terms
from db.contract.sent import SentTerms
from templates import Operator, operators, restriction, template_names
from templates.errors import UnknownTemplate
from templates.workload import Workload


class OrderBase(SentTerms):
    """A tuning job as it is ordered."""

    operator: str
    workload: Workload

    @model_validator(mode="after")
    def _has_the_templates(self) -> Self:
        restricted(self, self.operator)
        return self

    def order(self) -> JobOrder:
        return JobOrder.of(self.workload, self, templates=restricted(self, self.operator))


def restricted(said: Terms, operator: str) -> tuple[str, ...] | None:
    """The templates that an order's terms leave an operator; None: all. An error is one of the
    field ``templates``, for pydantic."""
    if said.templates is not None and said.search == "metaschedule":
        raise PydanticCustomError(
            "templates_of_none",
            "templates can't be chosen for metaschedule, which searches without any; "
            "order another search",
            {"field": "templates"},
        )
    try:
        return restriction(said.templates, operator, said.target)
    except UnknownTemplate as error:
        raise PydanticCustomError(
            "unknown_template", "{why}", {"why": str(error), "field": "templates"}
        ) from error


def for_each_operator(base: type[BaseModel], name: str) -> Any:
    """Of models for an order of any shape: a union of one for each operator, with its workload and,
    if they name any, its templates."""
    return Union[tuple(_model(operator, base, name) for operator in operators())]  # noqa: UP007


def _model(operator: Operator, base: type[BaseModel], name: str) -> type[BaseModel]:
    known = tuple(template_names(operator.name))
    fields: dict[str, Any] = {
        "operator": (Literal[operator.name], Field()),
        "workload": (operator.workload, Field(examples=[operator.example])),
    }
    if "templates" in base.model_fields:
        fields["templates"] = (list[Literal[known]] | None, base.model_fields["templates"])  # type: ignore[valid-type]
    title = "".join(word.capitalize() for word in operator.name.split("_"))
    return create_model(f"{title}{name}", __base__=base, **fields)


def examples(**terms: Any) -> dict[str, Any]:
    """An order for each operator's example, on these terms."""
    return {
        operator.name: {
            "summary": operator.summary,
            "value": {"operator": operator.name, "workload": operator.example, **terms},
        }
        for operator in operators()
    }


if TYPE_CHECKING:
    Order = OrderBase
else:
    Order = for_each_operator(OrderBase, "Order")

ORDER_EXAMPLES = examples(trials=64)
