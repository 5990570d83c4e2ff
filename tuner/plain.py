"""What a caller gives as numbers, as Python's own: NumPy's are none to JSON and to a database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from tuner.errors import BadOrder

MOST = 10**4000
"""Python writes no number of some more digits."""


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """NumPy's scalars as int and float. Raises BadOrder for what no order can hold."""
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
