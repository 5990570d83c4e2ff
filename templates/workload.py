"""Workload: an operator with its shape, dtype and accuracy."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from templates.argument import Argument

USUAL_ERROR = {"float32": 1e-5, "float16": 1e-3}
"""``max_error`` where none is given."""
LEAST_ERROR_FLOAT16 = 5e-4
"""Rounding an output to float16 is 2^-11 = 4.9e-4 of it; the rest is for its sum in float32."""


def _number(value: object, info: ValidationInfo) -> object:
    """A query string's digits as a number. pydantic alone would take "16.0" and "1_6" for 16, and
    for a choice between numbers no digits at all but True and 1.0."""
    if isinstance(value, bool | float):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    if str(info.mode) != "string":
        return value
    digits = str(value)
    if not (digits.isascii() and digits.removeprefix("-").isdigit()):
        raise PydanticCustomError("int_parsing", "Input should be a valid integer, in digits only")
    return int(digits)


Digits = BeforeValidator(_number)
Whole = Annotated[int, Digits]
Extent = Annotated[int, Field(ge=1, le=2**31 - 1), Digits]  # in this order JSON Schema has both


@dataclass(frozen=True)
class Later:
    """Annotates a field that came after keys had been stored: at its default it stays out of the
    key, and so those keys stay valid."""


class Workload(BaseModel, ABC):
    """What every operator's shape has. Subclasses add the extents and their limits."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    operator: ClassVar[str]

    dtype: Literal["float32", "float16"] = Field(
        "float32",
        description="element type of every tensor, float32 or float16; sums are float32",
    )
    max_error: float = Field(
        USUAL_ERROR["float32"],
        ge=1e-6,
        le=1e-1,
        description="contract on max|y - ref| / max|ref| against a float64 reference; "
        "by default 1e-5, or 1e-3 for float16",
    )

    @model_validator(mode="after")
    def _reachable_error(self) -> Self:
        if "max_error" not in self.model_fields_set:
            object.__setattr__(self, "max_error", USUAL_ERROR[self.dtype])  # the model is frozen
        if self.dtype == "float16" and self.max_error < LEAST_ERROR_FLOAT16:
            raise PydanticCustomError(
                "max_error_under_rounding",
                "max_error must be at least {least} for float16, whose rounding alone is 2^-11, "
                "but it is {max_error}; allow that much, or take dtype float32",
                {"least": LEAST_ERROR_FLOAT16, "max_error": self.max_error, "field": "max_error"},
            )
        return self

    @property
    def key(self) -> str:
        """Canonical JSON: the identity under which results are stored."""
        fields = {"operator": self.operator, **self.said}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @property
    def said(self) -> dict[str, Any]:
        """Its fields but those that came later and stand at their default."""
        unsaid = {
            name
            for name, field in type(self).model_fields.items()
            if Later() in field.metadata and getattr(self, name) == field.default
        }
        return self.model_dump(exclude=unsaid)

    @property
    def is_plain(self) -> bool:
        """Whether the operator's sums are the output, with nothing done to them."""
        return True

    @property
    @abstractmethod
    def arguments(self) -> tuple[Argument, ...]:
        """Its tensors in the order in which a compiled function takes them, the output last."""

    @property
    def given(self) -> tuple[Argument, ...]:
        """The arguments that are read."""
        return self.arguments[:-1]

    @property
    def output(self) -> Argument:
        """The argument that is written."""
        return self.arguments[-1]

    @property
    @abstractmethod
    def taps(self) -> int:
        """Multiply-adds for one output element."""

    @property
    def flops(self) -> int:
        """Floating-point operations of the direct form: two for each tap of each output."""
        return 2 * self.taps * self.output.elements

    @property
    def bytes(self) -> int:
        """Compulsory traffic: what is given read once, the output written once."""
        return sum(argument.bytes for argument in self.arguments)
