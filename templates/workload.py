"""Workload: an operator with its shape, dtype and accuracy."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from templates.argument import Argument
from templates.dtypes import ERRORS, LEAST_ERROR, USUAL_ERROR, Dtype


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


def numbers_of(*names: str, most: int) -> Callable[[object], object]:
    """A validator of a list of whole numbers with these names, or of a text of them with commas
    between, as a tuple."""
    spelt = {2: "two", 4: "four"}[len(names)]

    def read(value: object) -> object:
        found = value
        if isinstance(value, str):
            parts = [part.strip() for part in value.split(",")]
            found = [int(part) if part.isascii() and part.isdecimal() else part for part in parts]
        if found is None:
            return None
        if (
            isinstance(found, list | tuple)
            and len(found) == len(names)
            and all(type(number) is int and 0 <= number <= most for number in found)
        ):
            return tuple(found)
        raise PydanticCustomError(
            "padding_sides",
            "must be {count} whole numbers from 0 to {limit}: {names}, as {example}",
            {
                "count": spelt,
                "limit": most,
                "names": f"{', '.join(names[:-1])} and {names[-1]}",
                "example": ",".join("1" for _ in names),
            },
        )

    return read


def is_absent(value: object) -> bool:
    """For a field's ``exclude_if``: what was not given is not shown either."""
    return value is None


def is_extent(annotation: Any) -> bool:
    """Whether that is the type of a field that is a whole number, which may be absent."""
    if get_origin(annotation) in (Literal, tuple):
        return False
    return annotation is int or any(is_extent(each) for each in get_args(annotation))


def in_text(value: object) -> str:
    """A field's value as a query, a form or an option has it: ``true``, and numbers with commas."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True)
class Later:
    """Annotates a field that came after keys had been stored: at its default it stays out of the
    key, and so those keys stay valid."""


class Workload(BaseModel, ABC):
    """What every operator's shape has. Subclasses add the extents and their limits."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    operator: ClassVar[str]

    dtype: Dtype = Field(
        "float32",
        description="element type of every tensor, float32, float16 or bfloat16; sums are float32 "
        "wherever max_error asks for it",
    )
    max_error: float = Field(
        USUAL_ERROR["float32"],
        ge=ERRORS[0],
        le=ERRORS[1],
        description="contract on max|y - ref| / max|ref| against a float64 reference; "
        "by default 1e-5, 1e-3 for float16, 4e-3 for bfloat16",
    )

    @model_validator(mode="after")
    def _reachable_error(self) -> Self:
        if "max_error" not in self.model_fields_set:
            self._set(max_error=USUAL_ERROR[self.dtype])
        least = LEAST_ERROR.get(self.dtype, 0.0)
        if self.max_error < least:
            raise PydanticCustomError(
                "max_error_under_rounding",
                "max_error must be at least {least} for {dtype}, to which outputs are rounded, "
                "but it is {max_error}; allow {usual}, or take dtype float32",
                {
                    "least": least,
                    "usual": USUAL_ERROR[self.dtype],
                    "dtype": self.dtype,
                    "max_error": self.max_error,
                    "field": "max_error",
                },
            )
        return self

    def _set(self, **fields: Any) -> None:
        """For validators alone: the model is frozen."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

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
    def told(self) -> dict[str, Any]:
        """Its fields but those that would have the same value if they were not given."""
        told = self.model_dump()
        for name in list(told):
            rest = {each: value for each, value in told.items() if each != name}
            try:
                same = type(self).model_validate(rest) == self
            except ValidationError:
                continue
            if same:
                told = rest
        return told

    def fewer(self, signals: int, channels: int) -> Self:
        """The workload of so many of its signals, or, if it has one, of its channels, whose tensors
        again and again are tensors of this one; but for outputs of the same shape, which are sums
        over all signals. Itself if it has no more, or there is no such workload."""
        return self

    def _with(self, **fields: Any) -> Self:
        return type(self).model_validate(self.model_dump() | fields)

    @property
    def is_plain(self) -> bool:
        """Whether it is what templates written for one form alone compute: the operator's sums are
        the output, and no field that came later asks for another form."""
        return True

    @property
    def is_forward(self) -> bool:
        """Whether it is the operator itself, and not one of its gradients."""
        return True

    @property
    def as_forward(self) -> Workload | None:
        """A forward workload whose programs compute this one, which is a gradient: they take its
        arguments in the same order. None if there is none."""
        return None

    @property
    @abstractmethod
    def arguments(self) -> tuple[Argument, ...]:
        """Its tensors in the order in which a compiled function takes them, the outputs last."""

    @property
    def given(self) -> tuple[Argument, ...]:
        """The arguments that are read."""
        return tuple(argument for argument in self.arguments if argument.role != "output")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arguments that are written."""
        return tuple(argument for argument in self.arguments if argument.role == "output")

    @property
    def output(self) -> Argument:
        """The only one of :attr:`outputs`, for what serves workloads with one."""
        (output,) = self.outputs
        return output

    @property
    @abstractmethod
    def taps(self) -> int:
        """Multiply-adds for one output element."""

    @property
    def flops(self) -> int:
        """Floating-point operations of the direct form: two for each tap of each output."""
        return 2 * self.taps * self.output.elements

    @property
    def must_transform(self) -> bool:
        """Whether only templates that transform are to compute it."""
        return False

    @property
    def bytes(self) -> int:
        """Compulsory traffic: what is given read once, the outputs written once."""
        return sum(argument.bytes for argument in self.arguments)
