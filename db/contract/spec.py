"""Description, choices and bounds of a field, declared once for all code that reads its input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Spec:
    """Description, choices and bounds of a field: ``Annotated[int, Spec("trials to run", ge=1)]``.

    The bounds have pydantic's names, but pydantic is not imported here: it is too slow for shell
    completion. They hold for values that a client sends. Stored values, and answers of another
    release, may lie outside them."""

    def __init__(self, description: str, choices: tuple[str, ...] = (), **bounds: Any) -> None:
        self.description = description
        self.choices = choices
        self.bounds = bounds

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "description": self.description}


def specified(
    model: type[DataclassInstance],
) -> Iterator[tuple[Field[Any], Any, Spec]]:
    """Yield each field of a dataclass with its type and its Spec. All fields must have one."""
    hints = get_type_hints(model, include_extras=True)
    for field in fields(model):
        hint = hints[field.name]
        yield field, hint.__origin__, hint.__metadata__[0]
