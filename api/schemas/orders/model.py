"""The body of ``POST /models``: workloads of any operators, on the same terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, create_model, model_validator

from api.schemas.orders.job import for_each_operator, order_of, restricted
from db.contract import requests
from db.contract.model import LayerOrder, ModelOrder
from db.contract.order import JobOrder
from templates import operators, template_names
from templates.workload import Workload


class LayerBase(requests.LayerIn):
    """A workload of a model, and how many times the model calls it."""

    workload: Workload


class ModelBase(requests.ModelIn):
    """The order of a model. Its terms are those of each of its jobs."""

    if TYPE_CHECKING:
        workloads: list[LayerBase]  # type: ignore[assignment]  # a narrower type

    @model_validator(mode="after")
    def _have_the_templates(self) -> Self:
        for operator in {each.operator for each in self.workloads}:
            restricted(self, operator)
        return self

    def order(self) -> ModelOrder:
        """Return the order as the storage takes it."""
        return ModelOrder.of(self.name, [LayerOrder(self._job(e), e.calls) for e in self.workloads])

    def _job(self, each: LayerBase) -> JobOrder:
        return order_of(self, each.operator, each.workload)


if TYPE_CHECKING:
    ModelOrderBody = ModelBase
else:
    _LAYER = Annotated[for_each_operator(LayerBase, "Layer"), Field(discriminator="operator")]
    _NAMES = tuple({name: None for each in operators() for name in template_names(each.name)})
    ModelOrderBody = create_model(
        "ModelOrderBody",
        __base__=ModelBase,
        workloads=(list[_LAYER], ModelBase.model_fields["workloads"]),
        templates=(list[Literal[_NAMES]] | None, ModelBase.model_fields["templates"]),
    )

MODEL_EXAMPLE: dict[str, Any] = {
    "name": "two_layers",
    "workloads": [
        {"operator": each.name, "workload": each.example, "calls": calls}
        for calls, each in enumerate(operators(), 1)
    ],
    "trials": 64,
}
