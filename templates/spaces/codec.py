"""Codes of combinations of knobs: numbers in a mixed radix with a digit for each knob.

The digit of an absent knob is 0.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from templates.errors import InvalidConfig, SpaceTooLarge
from templates.spaces.knob import Config, Knob, copied, quoted


def weights(knobs: Sequence[Knob]) -> list[int]:
    """Return the weight of each knob's digit; the last knob varies fastest.

    Raise SpaceTooLarge if the codes would not fit into 62 bits.
    """
    worth, product = [], 1
    for knob in reversed(knobs):
        worth.append(product)
        product *= len(knob.values)
    if product >= 2**62:
        raise SpaceTooLarge(f"the knobs have {product:.1e} combinations: declare fewer values")
    return worth[::-1]


class Codec:
    """Converter between codes and knobs. A knob may depend on earlier ones."""

    def __init__(self, knobs: Sequence[Knob]) -> None:
        self._knobs = {knob.name: knob for knob in knobs}
        self._digits = list(zip(knobs, weights(knobs), strict=True))
        self._deciding = {name for knob in knobs for name, _ in knob.when}

    def decode(self, code: int) -> Config:
        """Return the knobs that are present in a code's combination, in their order."""
        config: Config = {}
        for knob, worth in self._digits:
            digit, code = divmod(code, worth)
            if not knob.when or knob.present(config):
                config[knob.name] = copied(knob.values[digit])
        return config

    def encode(self, knobs: Mapping[str, Any]) -> int:
        """Return the code of the knobs that are present.

        Raise InvalidConfig, which names the wrong knob.
        """
        for name in knobs:
            if name not in self._knobs:
                known = ", ".join(self._knobs) or "none"
                raise InvalidConfig(f"{quoted(name)[1:-1]}: no such knob; the knobs are: {known}")
        code, seen = 0, Config()
        for knob, worth in self._digits:
            if not knob.present(seen):
                if knob.name in knobs:
                    raise InvalidConfig(f"{knob.name}: leave it out; it exists only {_if(knob)}")
                continue
            if knob.name not in knobs:
                raise InvalidConfig(f"{knob.name}: missing; {_choices(knob)}")
            digit = knob.digit(knobs[knob.name])
            if digit is None:
                given = quoted(knobs[knob.name])
                raise InvalidConfig(
                    f"{knob.name}: {given} is not one of its values; {_choices(knob)}"
                )
            seen[knob.name] = knobs[knob.name]
            code += digit * worth
        return code

    def neighbours(self, config: Config) -> set[int]:
        """Return the codes of combinations that differ from `config` in one knob that both have.

        If the change makes other knobs present, each of their values gives a neighbour.
        """
        code = self.encode(config)
        codes: set[int] = set()
        for knob, worth in self._digits:
            if knob.name not in config:
                continue
            here = code // worth % len(knob.values)
            for digit, value in enumerate(knob.values):
                if digit == here:
                    continue
                if knob.name in self._deciding:
                    codes.update(self._agreeing(config | {knob.name: value}))
                else:
                    codes.add(code + (digit - here) * worth)
        return codes

    def _agreeing(self, wanted: Config) -> Iterator[int]:
        """Yield the codes of combinations that agree with `wanted` on every knob that both have."""

        def descend(depth: int, code: int, config: Config) -> Iterator[int]:
            if depth == len(self._digits):
                yield code
                return
            knob, worth = self._digits[depth]
            if not knob.present(config):
                yield from descend(depth + 1, code, config)
                return
            for digit, value in enumerate(knob.values):
                if knob.name not in wanted or wanted[knob.name] == value:
                    fuller = config | {knob.name: value}
                    yield from descend(depth + 1, code + digit * worth, fuller)

        return descend(0, 0, {})


def _choices(knob: Knob) -> str:
    return f"choose from {json.dumps(knob.values)}"


def _if(knob: Knob) -> str:
    terms = (f"{name} is {' or '.join(map(json.dumps, allowed))}" for name, allowed in knob.when)
    return f"if {' and '.join(terms)}"
