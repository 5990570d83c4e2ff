"""Parts that several schemas share: examples, operator names, pages and queries of lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from templates import operators
from templates.conv1d.workload import Conv1dWorkload
from templates.workload import in_text

T = TypeVar("T")

DEVICE: dict[str, Any] = {"kind": "cuda", "name": "NVIDIA H200", "arch": "sm_90"}
WORKLOAD = Conv1dWorkload(M=16384, N=32).model_dump()
CONFIG: dict[str, Any] = {
    "template": "direct",
    "threads": 128,
    "outputs_per_thread": 20,
    "taps_per_step": 32,
}
JOB_ID = "5f0c6d0e3b5a4e0f9f4f3b1c2d3e4f5a"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def in_query(fields: Mapping[str, object]) -> str:
    """Return the fields as the query of a URL."""
    return urlencode({name: in_text(value) for name, value in fields.items()})


def _known_operator(name: str) -> str:
    names = [operator.name for operator in operators()]
    if name not in names:
        raise PydanticCustomError(
            "unknown_operator", "must be one of {known}", {"known": ", ".join(names)}
        )
    return name


OPERATOR_NAMES: dict[str, Any] = {"enum": [operator.name for operator in operators()]}
"""The names of all operators, as JSON Schema."""
OperatorName = Annotated[
    str, AfterValidator(_known_operator), Field(json_schema_extra=OPERATOR_NAMES)
]


class BlankableQuery(BaseModel):
    """A query in which ``?state=`` means the same as no ``state`` at all."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, query: Any) -> Any:
        return {k: v for k, v in query.items() if v != ""} if isinstance(query, dict) else query


class PageQuery(BlankableQuery):
    """The query of a list: how many items a page has, and which page is asked for."""

    limit: int = Field(50, ge=1, le=200, description="items a page")
    cursor: str | None = Field(
        None, max_length=512, description="next_cursor of the page before this one"
    )


class OperatorPageQuery(PageQuery):
    """The query of a list that can be restricted to one operator."""

    operator: OperatorName | None = Field(None, description="only of this operator")


class Listing(BaseModel, Generic[T]):
    """One page of a list. `next_cursor` is the `cursor` of the next page; null on the last page."""

    model_config = ConfigDict(from_attributes=True)

    items: list[T]
    next_cursor: str | None = Field(None, examples=[None])
