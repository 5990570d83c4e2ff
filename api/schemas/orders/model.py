"""What ``POST /models`` takes: workloads, each told apart by its operator, on the same terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from api.schemas.orders.job import for_each_operator, restricted
from db.contract.model import MAX_CALLS, MAX_NAME, MAX_WORKLOADS, LayerOrder, ModelOrder
from db.contract.order import PRINTABLE, JobOrder
from db.contract.sent import SentTerms
from templates import operators, template_names
from templates.workload import Workload


class LayerBase(BaseModel):
    """A workload of a model."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    operator: str
    workload: Workload
    calls: int = Field(
        1,
        ge=1,
        le=MAX_CALLS,
        description="how many times the model calls it; equal workloads are added up",
    )


if TYPE_CHECKING:
    SentLayer = LayerBase
else:
    SentLayer = Annotated[for_each_operator(LayerBase, "Layer"), Field(discriminator="operator")]


class SentModelBase(SentTerms):
    """A model as it is ordered. The terms are those of each of its jobs."""

    name: str = Field(
        min_length=1,
        max_length=MAX_NAME,
        pattern=PRINTABLE,
        description="your own name for the model; several may have the same. Printable",
    )
    workloads: list[SentLayer] = Field(min_length=1, max_length=MAX_WORKLOADS)

    @model_validator(mode="after")
    def _have_the_templates(self) -> Self:
        for operator in {each.operator for each in self.workloads}:
            restricted(self, operator)
        return self

    def order(self) -> ModelOrder:
        return ModelOrder.of(self.name, [LayerOrder(self._job(e), e.calls) for e in self.workloads])

    def _job(self, each: LayerBase) -> JobOrder:
        return JobOrder.of(each.workload, self, templates=restricted(self, each.operator))


if TYPE_CHECKING:
    SentModel = SentModelBase
else:
    _NAMES = tuple({name: None for each in operators() for name in template_names(each.name)})
    SentModel = create_model(
        "SentModel",
        __base__=SentModelBase,
        templates=(list[Literal[_NAMES]] | None, SentModelBase.model_fields["templates"]),
    )

MODEL_EXAMPLE: dict[str, Any] = {
    "name": "two_layers",
    "workloads": [
        {"operator": each.name, "workload": each.example, "calls": calls}
        for calls, each in enumerate(operators(), 1)
    ],
    "trials": 64,
}
