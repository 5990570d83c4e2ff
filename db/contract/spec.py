"""What is said of a field where it is declared, for all who take its value from somebody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Spec:
    """``Annotated[int, Spec("configurations to measure", ge=1)]``: a description, the values to
    choose from, and bounds, named as pydantic names them, which a shell that completes a line need
    not import. They hold for what somebody sends; what is stored, or answered by another release,
    may be beyond them."""

    def __init__(self, description: str, choices: tuple[str, ...] = (), **bounds: Any) -> None:
        self.description = description
        self.choices = choices
        self.bounds = bounds

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "description": self.description}


def specified(
    model: type[DataclassInstance],
) -> Iterator[tuple[Field[Any], Any, Spec]]:
    """A dataclass's fields, each with its type and its Spec."""
    hints = get_type_hints(model, include_extras=True)
    for field in fields(model):
        hint = hints[field.name]
        yield field, hint.__origin__, hint.__metadata__[0]
