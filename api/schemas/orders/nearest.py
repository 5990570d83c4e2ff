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
        description="borrow only from bests on a device with this name",
    )
    for_device: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        pattern=PRINTABLE,
        description="only a worker on a device with this name verifies; of equally close "
        "shapes, borrow from one that was tuned on that device",
    )
    templates: list[str] | None = Field(
        None, min_length=1, max_length=32, description="borrow only from bests of these templates"
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="borrow only from bests on at most this many CPU threads, or on a GPU",
    )
    parallel: bool = Field(
        False, description="on a CPU, borrow from a best on several threads if there is one"
    )


if TYPE_CHECKING:
    NearestOrder = NearestBase
else:
    NearestOrder = for_each_operator(NearestBase, "NearestOrder")

EXAMPLES = examples()
