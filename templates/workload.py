"""Workload: an operator with its shape, dtype and accuracy."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
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
from templates.dtypes import LEAST_ERROR, MAX_ERROR_RANGE, USUAL_ERROR, Dtype


def _number(value: object, info: ValidationInfo) -> object:
    """Return the value, or the integer that a query string's digits spell.

    pydantic alone would take "16.0" and "1_6" for 16, and for a choice between numbers it would
    refuse digits but take True and 1.0.
    """
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
Extent = Annotated[int, Field(ge=1, le=2**31 - 1), Digits]  # Digits first would hide the limits


def numbers_of(*names: str, most: int) -> Callable[[object], object]:
    """Return a validator of whole numbers from 0 to ``most``, one for each of the names.

    It takes a list, or a text of the numbers with commas between them, and returns a tuple. None
    stays None.
    """
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
            "must be {count} whole numbers from 0 to {limit}: {names}, such as {example}",
            {
                "count": spelt,
                "limit": most,
                "names": f"{', '.join(names[:-1])} and {names[-1]}",
                "example": ",".join("1" for _ in names),
            },
        )

    return read


def is_absent(value: object) -> bool:
    """Return whether the value is None; for a field's ``exclude_if``, which hides absent fields."""
    return value is None


def is_extent(annotation: Any) -> bool:
    """Return whether a field's type is a whole number, or a whole number that may be absent."""
    if get_origin(annotation) in (Literal, tuple):
        return False
    return annotation is int or any(is_extent(each) for each in get_args(annotation))


def in_text(value: object) -> str:
    """Return a field's value as a query, a form or an option spells it: ``true`` or ``1,1,1,1``."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True)
class AddedLater:
    """Annotation of a field that was added after keys had been stored.

    The field stays out of the key while it has its default, so the stored keys stay valid.
    """


class Workload(BaseModel, ABC):
    """Base of every operator's workloads: dtype and accuracy.

    Subclasses add the extents and their limits.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    operator: ClassVar[str]

    dtype: Dtype = Field(
        "float32",
        description="element type of every tensor, float32, float16 or bfloat16; sums are float32",
    )
    max_error: float = Field(
        USUAL_ERROR["float32"],
        ge=MAX_ERROR_RANGE[0],
        le=MAX_ERROR_RANGE[1],
        description="limit of max|y - ref| / max|ref| against a float64 reference; "
        "by default 1e-5, or 1e-3 for float16 and 4e-3 for bfloat16",
    )

    @model_validator(mode="after")
    def _reachable_error(self) -> Self:
        if "max_error" not in self.model_fields_set:
            self._set(max_error=USUAL_ERROR[self.dtype])
        least = LEAST_ERROR.get(self.dtype, 0.0)
        if self.max_error < least:
            raise PydanticCustomError(
                "max_error_under_rounding",
                "max_error must be at least {least} for {dtype}, because outputs are rounded to "
                "it, but it is {max_error}; allow {usual}, or take dtype float32",
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
        """Set fields of the frozen model; only for validators."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        """Return canonical JSON: the identity under which results are stored."""
        fields = {"operator": self.operator, **self.key_fields}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @property
    def key_fields(self) -> dict[str, Any]:
        """Return the fields of the key: all but those annotated AddedLater at their default."""
        at_default = {
            name
            for name, field in type(self).model_fields.items()
            if AddedLater() in field.metadata and getattr(self, name) == field.default
        }
        return self.model_dump(exclude=at_default)

    @property
    def explicit_fields(self) -> dict[str, Any]:
        """Return the workload's fields without those that validation would fill in."""
        needed = self.model_dump()
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        unusual = {name: value for name, value in needed.items() if value != usual[name]}
        if self._follows_from(unusual):  # usually; few fields are then left to try
            needed = unusual
        for name in list(needed):
            rest = {each: value for each, value in needed.items() if each != name}
            if self._follows_from(rest):
                needed = rest
        return needed

    def _follows_from(self, fields: Mapping[str, Any]) -> bool:
        try:
            return type(self).model_validate(fields) == self
        except ValidationError:
            return False

    def reduced_to(self, signals: int, channels: int) -> Self:
        """Return a smaller workload whose tensors, repeated, can stand for tensors of this one.

        It has ``signals`` signals, or, if this one has a single signal, ``channels`` channels. An
        output that keeps its shape is not repeated: it is a sum over all signals. Return this
        workload itself if it is no larger, or if there is no such workload.
        """
        return self

    def _with(self, **fields: Any) -> Self:
        """Return the workload with these fields changed, validated again."""
        return type(self).model_validate(self.model_dump() | fields)

    @property
    def is_plain(self) -> bool:
        """Return whether templates that know only the operator's basic form compute this workload.

        In the basic form the output is the operator's sums, and no field that was added later asks
        for another form.
        """
        return True

    @property
    def gate_channels(self) -> int:
        """Return how many channels of the first input are gates, by which others are multiplied.

        Gates are the first channels along the input's last axis.
        """
        return 0

    @property
    def is_forward(self) -> bool:
        """Return whether the workload is the operator itself and not a gradient of it."""
        return True

    @property
    def as_forward(self) -> Workload | None:
        """Return the forward workload whose programs compute this gradient; None if there is none.

        Those programs take this workload's arguments in the same order.
        """
        return None

    @property
    @abstractmethod
    def arguments(self) -> tuple[Argument, ...]:
        """Return the tensors in the order of a compiled function's parameters, the outputs last."""

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """Return the arguments that are read."""
        return tuple(argument for argument in self.arguments if argument.role != "output")

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """Return the arguments that are written."""
        return tuple(argument for argument in self.arguments if argument.role == "output")

    @property
    def output(self) -> Argument:
        """Return the only output. Raise ValueError if there are several."""
        (output,) = self.outputs
        return output

    @property
    @abstractmethod
    def taps(self) -> int:
        """Return the multiply-adds for one output element."""

    @property
    def flops(self) -> int:
        """Return the floating-point operations of the direct form: two for each tap and output."""
        return 2 * self.taps * self.output.elements

    @property
    def must_transform(self) -> bool:
        """Return whether only templates that sum by FFT may compute this workload."""
        return False

    @property
    def bytes(self) -> int:
        """Return the compulsory traffic in bytes: each input read and each output written once."""
        return sum(argument.bytes for argument in self.arguments)
