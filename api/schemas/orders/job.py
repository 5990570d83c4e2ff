"""The body of ``POST /jobs``: a union of one pydantic model for each operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, Union

from pydantic import BaseModel, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from db.contract.order import JobOrder, Terms
from db.contract.requests import TermsIn
from templates import Operator, only_kind, operators, restriction, template_names
from templates.errors import UnknownTemplate
from templates.workload import Workload


class OrderBase(TermsIn):
    """The order of a job: a workload, and the terms on which it is tuned."""

    operator: str
    workload: Workload

    @model_validator(mode="after")
    def _has_the_templates(self) -> Self:
        restricted(self, self.operator)
        return self

    def order(self) -> JobOrder:
        """Return the order as the queue takes it."""
        return order_of(self, self.operator, self.workload)


def order_of(said: Terms, operator: str, workload: Workload) -> JobOrder:
    """Return the order of a workload on these terms.

    If all its templates are for one kind of device, the order is for that kind. Otherwise a worker
    of the other kind might claim the job, and fail."""
    names = restricted(said, operator)
    is_open = said.target == "auto" and said.for_device is None
    kind = only_kind(names, operator) if is_open else None
    return JobOrder.of(workload, said, target=kind or said.target, templates=names)


def restricted(said: Terms, operator: str) -> tuple[str, ...] | None:
    """Return the templates to which an order's terms restrict an operator. None: all apply.

    Raise PydanticCustomError, about the field ``templates``, if the operator lacks one of them."""
    try:
        return restriction(said.templates, operator, said.target)
    except UnknownTemplate as error:
        raise PydanticCustomError(
            "unknown_template", "{why}", {"why": str(error), "field": "templates"}
        ) from error


def for_each_operator(base: type[BaseModel], name: str) -> Any:
    """Return a union of subclasses of ``base``, one for each operator, told apart by its name.

    ``base`` takes any workload. A subclass takes that operator's workload and, if ``base`` has a
    field ``templates``, that operator's templates. ``name`` is the end of the subclasses' names."""
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
    """Return OpenAPI examples: an order of each operator's example workload, on these terms."""
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
