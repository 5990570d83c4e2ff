"""What ``POST /jobs/nearest`` takes: one model for each operator, told apart by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, create_model

from api.schemas.order import names_of
from db.contract.order import Target
from templates import Operator, operators
from templates.workload import Workload


class NearestBase(BaseModel):
    """A shape for which the nearest configuration is to be verified."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    operator: str
    workload: Workload
    target: Target = Field("auto", description="kind of device; auto: any")
    device: str | None = Field(
        None, max_length=200, description="lent by a best of this device, by its name"
    )
    templates: list[str] | None = Field(
        None, min_length=1, max_length=32, description="lent by a best of one of these templates"
    )


def _model(operator: Operator) -> type[NearestBase]:
    fields: dict[str, Any] = {
        "operator": (Literal[operator.name], Field()),
        "workload": (operator.workload, Field(examples=[operator.example])),
        "templates": (names_of(operator), NearestBase.model_fields["templates"]),
    }
    title = "".join(word.capitalize() for word in operator.name.split("_"))
    return create_model(f"{title}NearestOrder", __base__=NearestBase, **fields)


if TYPE_CHECKING:
    NearestOrder = NearestBase
else:
    NearestOrder = Union[tuple(_model(operator) for operator in operators())]  # noqa: UP007

EXAMPLES: dict[str, Any] = {
    operator.name: {
        "summary": operator.summary,
        "value": {"operator": operator.name, "workload": operator.example},
    }
    for operator in operators()
}
