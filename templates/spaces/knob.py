"""Knob: one named choice of a schedule, and helpers for its values."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from templates.errors import InvalidSpace

Config = dict[str, Any]
"""A configuration: `{"template": "direct", "threads": 128, "tile": [8, 8]}`, all JSON."""

Value = bool | int | float | str | None | list[int]
Condition = tuple[tuple[str, tuple[Value, ...]], ...]

BRIEF = 80
"""The most characters of a value in a message or a table."""

_SCALARS = (bool, int, float, str, type(None))


def _exact(value: object) -> Hashable:
    """Return a key that tells 1, True and 1.0 apart.

    Return None if the value is neither a JSON scalar nor a list of them.
    """
    if type(value) in _SCALARS:
        return (type(value), value)
    if type(value) is list and all(type(part) in _SCALARS for part in value):
        return tuple((type(part), part) for part in value)
    return None


@dataclass(frozen=True)
class Knob:
    """A choice between `values`, present only if each knob in `when` has a value listed there.

    The values are distinct JSON scalars, or lists of integers for a split.
    """

    name: str
    values: tuple[Value, ...]
    when: Condition = ()
    _digits: dict[Hashable, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidSpace(f"a knob can't be called {quoted(self.name)}: give it a name")
        if not self.values:
            raise InvalidSpace(f"knob {quoted(self.name)} has no values: give it at least one")
        for value in self.values:
            if _exact(value) is None or (isinstance(value, float) and not math.isfinite(value)):
                raise InvalidSpace(f"knob {quoted(self.name)}: {quoted(value)} is no JSON scalar")
        # Compared by Python's equality, so that no knob can have two of 1, 1.0 and True.
        if len(distinct(self.values)) < len(self.values):
            raise InvalidSpace(
                f"knob {quoted(self.name)} has a value twice: values must be distinct"
            )
        digits = {_exact(value): digit for digit, value in enumerate(self.values)}
        object.__setattr__(self, "_digits", digits)

    def digit(self, value: object) -> int | None:
        """Return the place of `value` among the values, or None if it is not one of them."""
        key = _exact(value)
        return None if key is None else self._digits.get(key)

    def present(self, config: Mapping[str, Any]) -> bool:
        """Return whether this knob is present, judged by the earlier knobs that are in `config`."""
        return all(name in config and config[name] in allowed for name, allowed in self.when)


def condition(when: Mapping[str, Any] | None, earlier: Mapping[str, Knob]) -> Condition:
    """Return the checked form of `{"weights": "shared"}` or `{"weights": ["shared", "regs"]}`.

    Raise InvalidSpace if a knob is not in `earlier`, or never has the value.
    """
    pairs = []
    for name, asked in (when or {}).items():
        if name not in earlier:
            raise InvalidSpace(f"a condition names knob {quoted(name)}: declare that knob first")
        knob = earlier[name]
        several = isinstance(asked, list | tuple) and knob.digit(asked) is None
        allowed: tuple[Value, ...] = tuple(asked) if several else (asked,)
        if not allowed:
            raise InvalidSpace(f"a condition on {quoted(name)} allows no value: name at least one")
        for value in allowed:
            if knob.digit(value) is None:
                raise InvalidSpace(
                    f"a condition wants {quoted(name)} to be {quoted(value)}, which is not one of "
                    f"its values {quoted(list(knob.values))}"
                )
        pairs.append((name, allowed))
    return tuple(pairs)


def factorisations(extent: int, parts: int, max_factor: int | None = None) -> list[list[int]]:
    """Return every list of `parts` positive integers whose product is `extent`, in ascending order.

    As in AutoTVM, `max_factor` bounds all of them but the first. Raise InvalidSpace if `extent` or
    `parts` is less than 1.
    """
    if extent < 1 or parts < 1:
        raise InvalidSpace(f"can't split {extent} in {parts}: both must be at least 1")
    low = [d for d in range(1, math.isqrt(extent) + 1) if extent % d == 0]
    divisors = sorted({*low, *(extent // d for d in low)})

    def chains(rest: int, count: int, bound: int) -> Iterator[list[int]]:
        if count == 1:
            if rest <= bound:
                yield [rest]
            return
        for first in divisors:
            if first <= bound and rest % first == 0:
                for others in chains(rest // first, count - 1, bound):
                    yield [first, *others]

    if parts == 1:
        return [[extent]]
    bound = extent if max_factor is None else max_factor
    return [
        [first, *others]
        for first in divisors
        for others in chains(extent // first, parts - 1, bound)
    ]


def copied(value: Value) -> Value:
    """Return the value, or a copy if it is a list, so that nobody can change a space through it."""
    return list(value) if isinstance(value, list) else value


def distinct(values: Sequence[Value]) -> list[Value]:
    """Return the values in the order in which each was first seen; equal ones count as one."""
    seen: dict[Hashable, Value] = {}
    for value in values:
        seen.setdefault(tuple(value) if isinstance(value, list) else value, value)
    return list(seen.values())


def brief(value: object) -> str:
    """Return a value as short text for people.

    A long text is cut at its beginning, because a trace has its decisions at its end.
    """
    text = str(value)
    return text if len(text) <= BRIEF else f"…{text[1 - BRIEF :]}"


def quoted(value: object) -> str:
    """Return an untrusted value for a message: its repr in ASCII, cut off after 80 characters.

    If it has no repr, as an integer of 10,000 digits, return its type.
    """
    try:
        text = ascii(value)
    except (ValueError, RecursionError):
        return f"this {type(value).__name__}"
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 1]}…"
