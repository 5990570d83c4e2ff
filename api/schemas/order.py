"""What ``POST /jobs`` takes: one model for each operator, told apart by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, Union

from pydantic import Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from db.contract.order import JobOrder
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
        if self.templates is not None and self.search == "metaschedule":
            raise PydanticCustomError(
                "templates_of_none",
                "templates can't be chosen for metaschedule, which searches without any; "
                "order another search",
                {"field": "templates"},
            )
        try:
            restriction(self.templates, self.operator, self.target)
        except UnknownTemplate as error:
            raise PydanticCustomError(
                "unknown_template", "{why}", {"why": str(error), "field": "templates"}
            ) from error
        return self

    def order(self) -> JobOrder:
        names = restriction(self.templates, self.operator, self.target)
        return JobOrder.of(self.workload, self, templates=names)


def names_of(operator: Operator) -> Any:
    """A list of the operator's templates, or null."""
    known = tuple(template_names(operator.name))
    return list[Literal[known]] | None  # type: ignore[valid-type]


def _order_model(operator: Operator) -> type[OrderBase]:
    fields: dict[str, Any] = {
        "operator": (Literal[operator.name], Field()),
        "workload": (operator.workload, Field(examples=[operator.example])),
        "templates": (names_of(operator), OrderBase.model_fields["templates"]),
    }
    title = "".join(word.capitalize() for word in operator.name.split("_"))
    return create_model(f"{title}Order", __base__=OrderBase, **fields)


if TYPE_CHECKING:
    Order = OrderBase
else:
    Order = Union[tuple(_order_model(operator) for operator in operators())]  # noqa: UP007

ORDER_EXAMPLES: dict[str, Any] = {
    operator.name: {
        "summary": operator.summary,
        "value": {"operator": operator.name, "workload": operator.example, "trials": 64},
    }
    for operator in operators()
}
