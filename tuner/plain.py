"""Conversion of a caller's values to plain Python values.

JSON and databases take no NumPy scalars, but callers often pass them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from tuner.errors import BadOrder

MOST = 10**4000
"""Larger integers are refused: Python converts no integer of more than 4300 digits to text."""


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping with all its values, including nested ones, as plain Python values.

    NumPy's scalars become int and float, tuples become lists. Raises BadOrder for a value that no
    order can hold, such as NaN or text that is no valid Unicode.
    """
    return {name: _plain(name, value) for name, value in given.items()}


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(name, value)
    if isinstance(value, Integral):
        return _whole(name, int(value))
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    raise BadOrder(
        name, f"give a number, a name, True or False, or a list of them, not {value!r:.80}"
    )


def _text(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadOrder(
            name, f"must be a string of Unicode characters, but is {value!a:.80}"
        ) from error
    return value


def _whole(name: str, value: int) -> int:
    if abs(value) >= MOST:
        raise BadOrder(name, "is larger than any field may be")
    return value
