"""What somebody sends, as pydantic models of what the contract declares: with all its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from db.contract.order import Terms
from db.contract.spec import specified

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def bounded(model: type[DataclassInstance]) -> dict[str, Any]:
    """A dataclass's fields for pydantic's create_model."""
    return {
        field.name: (
            Literal[spec.choices] if spec.choices else kind,
            Field(field.default, description=spec.description, **spec.bounds),
        )
        for field, kind, spec in specified(model)
    }


if TYPE_CHECKING:

    class SentTerms(BaseModel, Terms): ...
else:
    SentTerms = create_model(
        "SentTerms",
        __config__=ConfigDict(frozen=True, strict=True, extra="forbid"),
        **bounded(Terms),
    )
