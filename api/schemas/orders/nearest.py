"""The body of ``POST /jobs/nearest``: a union of one pydantic model for each operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from api.schemas.orders.job import examples, for_each_operator
from db.contract.order import PRINTABLE, Target
from templates.workload import Workload


class NearestBase(BaseModel):
    """The order to verify a shape's nearest configuration: that of the closest tuned shape."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    operator: str
    workload: Workload
    target: Target = Field("auto", description="kind of device; auto: any")
    device: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="lent by a best of this device, by its name",
    )
    for_device: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        pattern=PRINTABLE,
        description="only a worker with this device, by its name, verifies; of equally close "
        "shapes, one tuned on that device lends",
    )
    templates: list[str] | None = Field(
        None, min_length=1, max_length=32, description="lent by a best of one of these templates"
    )
    threads: int | None = Field(
        None, ge=1, le=4096, description="lent by a best on at most so many threads of a CPU"
    )
    parallel: bool = Field(
        False, description="lent by a best on several threads of a CPU, if there is one"
    )


if TYPE_CHECKING:
    NearestOrder = NearestBase
else:
    NearestOrder = for_each_operator(NearestBase, "NearestOrder")

EXAMPLES = examples()
