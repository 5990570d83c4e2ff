"""What ``POST /jobs`` takes: one model for each operator, told apart by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, Union

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from db.queue import JobOrder
from templates import Operator, operators, restriction, template_names
from templates.errors import UnknownTemplate
from templates.workload import Workload

MAX_TRIALS = 100_000
MAX_BUDGET_SECONDS = 604_800  # a week
MAX_SEED = 2**31 - 1

Target = Literal["auto", "cpu", "cuda"]
Search = Literal[
    "random", "grid", "xgb", "evolutionary", "metaschedule"
]  # tuner's strategies; a test holds the two together


class OrderBase(BaseModel):
    """A tuning job as it is ordered."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    operator: str
    workload: Workload
    target: Target = Field("auto", description="the kind of device; auto takes any worker's")
    trials: int = Field(64, ge=1, le=MAX_TRIALS, description="configurations to measure")
    search: Search = Field("xgb", description="the search strategy")
    on_existing: Literal["reuse", "retune"] = Field(
        "reuse",
        description="reuse answers with a succeeded job behind whose best at least as many trials "
        "worked, or that was allowed as much and ended before, as by patience",
    )
    budget_seconds: float | None = Field(
        None,
        gt=0,
        le=MAX_BUDGET_SECONDS,
        description="the job ends with what it has after so many seconds",
    )
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="of the search's random choices")
    patience: int | None = Field(
        None,
        ge=1,
        le=MAX_TRIALS,
        description="the search ends after so many trials in a row that were no faster",
    )
    warm_start: bool = Field(
        True,
        description="begin with what trials of other shapes on the same device say; "
        "false starts cold",
    )

    templates: list[str] | None = Field(
        None,
        min_length=1,
        max_length=32,
        description="search the spaces of these templates only, as where their arithmetic matters; "
        "null takes all that apply",
    )

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
        return JobOrder(
            operator=self.operator,
            workload_key=self.workload.key,
            workload=self.workload.model_dump(),
            target=self.target,
            trials=self.trials,
            search=self.search,
            on_existing=self.on_existing,
            budget_seconds=self.budget_seconds,
            seed=self.seed,
            patience=self.patience,
            warm_start=self.warm_start,
            templates=restriction(self.templates, self.operator, self.target),
        )


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
