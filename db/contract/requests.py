"""Pydantic models of the orders that clients send: the contract's fields with all their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from db.contract.model import MAX_CALLS, MAX_NAME, MAX_WORKLOADS
from db.contract.order import PRINTABLE, Terms
from db.contract.spec import specified

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def pydantic_fields(model: type[DataclassInstance]) -> dict[str, Any]:
    """Return the fields of a dataclass as pydantic's ``create_model`` takes them, with the
    description, the choices and the bounds of their Spec."""
    return {
        field.name: (
            Literal[spec.choices] if spec.choices else kind,
            Field(field.default, description=spec.description, **spec.bounds),
        )
        for field, kind, spec in specified(model)
    }


def _templates_are_searched(terms: Terms) -> Terms:
    """Raise PydanticCustomError if the order names templates but its search uses none."""
    if terms.templates is not None and terms.search == "metaschedule":
        raise PydanticCustomError(
            "templates_of_none",
            "templates can't be chosen for metaschedule, which searches without any; "
            "order another search",
            {"field": "templates"},
        )
    return terms


if TYPE_CHECKING:

    class TermsIn(BaseModel, Terms): ...
else:
    TermsIn = create_model(
        "TermsIn",
        __config__=ConfigDict(frozen=True, strict=True, extra="forbid"),
        __validators__={"searched": model_validator(mode="after")(_templates_are_searched)},
        **pydantic_fields(Terms),
    )


class LayerIn(BaseModel):
    """A workload of a model, of any operator, and how many times the model calls it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    operator: str
    workload: Any
    calls: int = Field(
        1,
        ge=1,
        le=MAX_CALLS,
        description="how many times the model calls it; the calls of equal workloads are added up",
    )


class ModelIn(TermsIn):
    """An order of many workloads. The terms hold for each of its jobs."""

    name: str = Field(
        min_length=1,
        max_length=MAX_NAME,
        pattern=PRINTABLE,
        description="your own name for the model, printable; several models may have the same",
    )
    workloads: list[LayerIn] = Field(min_length=1, max_length=MAX_WORKLOADS)
