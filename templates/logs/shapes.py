"""Other tools' convolutions as workloads, or the reason why they can't be expressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from templates import operator
from templates.errors import first_refused
from templates.logs.log import NotExpressible
from templates.spaces.knob import quoted
from templates.workload import Workload

MAX_FIELDS = 64


@dataclass(frozen=True)
class Window:
    """A convolution's tensors, channels first, and how its kernel moves over the input.

    The values come from a log and are checked when they are used.
    """

    data: Any
    weight: Any
    dtypes: list[Any]  # of input, weight and output
    strides: Any
    padding: Any
    dilation: Any


def depthwise_conv2d(window: Window) -> Workload:
    """Return the workload of a depthwise 2-D convolution. Raise NotExpressible if there is none."""
    B, C, H, W = _extents("input", window.data, 4)
    channels, multiplier, KH, KW = _extents("weight", window.weight, 4)
    if channels != C:
        raise NotExpressible(f"its weight has {channels} channels, but its input {C}")
    fields = {
        "B": B,
        "C": C,
        "H": H,
        "W": W,
        "KH": KH,
        "KW": KW,
        "stride": _same_both_ways("stride", window.strides),
        "padding": _sides(window.padding, 2),
        "dilation": _same_both_ways("dilation", window.dilation),
        "multiplier": multiplier,
        "dtype": _dtype(window),
    }
    return workload_of("depthwise_conv2d", fields)


def conv1d(window: Window) -> Workload:
    """Return the workload of a 1-D convolution. Raise NotExpressible if there is none."""
    B, C, M = _extents("input", window.data, 3)
    F, summed, N = _extents("weight", window.weight, 3)
    if summed not in (1, C):
        raise NotExpressible(f"each output sums {summed} of {C} channels, but must sum 1 or all")
    fields = {
        "B": B,
        "C": C,
        "M": M,
        "F": F,
        "N": N,
        "groups": 1 if summed == C else C,
        "stride": _for_each_dimension("stride", window.strides, 1)[0],
        "dilation": _for_each_dimension("dilation", window.dilation, 1)[0],
        "padding": _sides(window.padding, 1),
        "kind": "correlate",
        "dtype": _dtype(window),
    }
    return workload_of("conv1d", fields)


def workload_of(name: str, fields: Any) -> Workload:
    """Return a workload of one of the operators. Raise NotExpressible if a field is wrong."""
    if not isinstance(fields, dict) or len(fields) > MAX_FIELDS:
        raise NotExpressible(
            f"{name}: the workload must be an object with at most {MAX_FIELDS} names"
        )
    try:
        return operator(name).workload.model_validate(fields)
    except ValidationError as error:
        place, why = first_refused(error)
        raise NotExpressible(f"{name}: {quoted(place or 'shape')[1:-1]} {why[:300]}") from error


def _extents(name: str, given: Any, rank: int) -> list[int]:
    extents = _numbers(name, given)
    if len(extents) == rank + 1:
        raise NotExpressible(f"its {name} has blocked channels: {quoted(given)}")
    if len(extents) != rank:
        raise NotExpressible(f"its {name} must have {rank} extents, but has {len(extents)}")
    return extents


def _numbers(name: str, given: Any) -> list[int]:
    numbers = given if isinstance(given, list) else [given]
    if len(numbers) > 8 or not all(type(each) is int for each in numbers):
        raise NotExpressible(f"its {name} is {quoted(given)}, but must be whole numbers")
    return numbers


def _for_each_dimension(name: str, given: Any, dimensions: int) -> list[int]:
    """Return one number for each dimension. A single number stands for all."""
    numbers = _numbers(name, given)
    if len(numbers) not in (1, dimensions):
        raise NotExpressible(
            f"its {name} is {quoted(given)}, but must be one number, or one for each dimension "
            f"({dimensions})"
        )
    return numbers * dimensions if len(numbers) == 1 else numbers


def _same_both_ways(name: str, given: Any) -> int:
    """Return the number, the same for both dimensions. Raise NotExpressible if they differ."""
    down, across = _for_each_dimension(name, given, 2)
    if down != across:
        raise NotExpressible(f"its {name} is {down} and {across}, but both must be the same")
    return down


def _sides(given: Any, dimensions: int) -> list[int]:
    """Return the zeros before each dimension, then those after each.

    A number given once stands for both sides.
    """
    numbers = _numbers("padding", given)
    if len(numbers) == 2 * dimensions:
        return numbers
    return _for_each_dimension("padding", given, dimensions) * 2


def _dtype(window: Window) -> Any:
    if any(each != window.dtypes[0] for each in window.dtypes):
        raise NotExpressible(f"its dtypes are {quoted(window.dtypes)}, but all must be the same")
    return window.dtypes[0]
