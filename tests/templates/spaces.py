"""Random search spaces, and the configurations that they must have, found by brute force."""

import json
import zlib
from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import strategies as st

from templates.spaces.knob import factorisations
from templates.spaces.space import ConfigSpace

SCALARS = st.lists(
    st.one_of(st.integers(-8, 1024), st.text("abc", max_size=3), st.none()),
    min_size=1,
    max_size=4,
    unique=True,
)
SPLITS = st.tuples(st.integers(1, 24), st.integers(1, 3))
MOST = 5000
"""The most combinations of values of a random space, as the tests go through all of them."""


@dataclass(frozen=True)
class Plan:
    """A space to declare: its knobs, each (name, values or (extent, parts) of a split, condition),
    and its constraints.

    One constraint, a hash of the configuration, refuses about one in ``modulus``. If ``early``,
    another one refuses values of the first knob the same way.
    """

    template: str
    knobs: list[tuple[str, Any, dict[str, list[Any]]]]
    modulus: int
    early: bool

    def values(self, choice: Any) -> list[Any]:
        return factorisations(*choice) if isinstance(choice, tuple) else choice

    def accepts(self, config: dict[str, Any]) -> bool:
        return zlib.crc32(json.dumps(config).encode()) % self.modulus != 1

    def accepts_first(self, config: dict[str, Any]) -> bool:
        first = self.knobs[0][0]
        return not self.early or self.accepts({first: config[first]})

    def space(self) -> ConfigSpace:
        """Return the space as a template would declare it."""
        space = ConfigSpace(self.template, version=3)
        for name, choice, when in self.knobs:
            if isinstance(choice, tuple):
                space.split(name, extent=choice[0], parts=choice[1], when=when)
            else:
                space.knob(name, choice, when=when)
        space.constraint("the hash is lucky", self.accepts)
        if self.early:
            space.constraint("the first is lucky", self.accepts_first, reads=[self.knobs[0][0]])
        return space

    def expected(self) -> list[dict[str, Any]]:
        """Return all its valid configurations in order, by going through every combination."""
        found: dict[str, dict[str, Any]] = {}
        for values in product(*(self.values(choice) for _, choice, _ in self.knobs)):
            config: dict[str, Any] = {}
            for (name, _, when), value in zip(self.knobs, values, strict=True):
                if all(config.get(k, "absent") in allowed for k, allowed in when.items()):
                    config[name] = value
            if self.accepts(config) and self.accepts_first(config):
                found.setdefault(json.dumps(config), {"template": self.template} | config)
        return list(found.values())


@st.composite
def plans(draw: st.DrawFn, template: str = "direct") -> Plan:
    knobs: list[tuple[str, Any, dict[str, list[Any]]]] = []
    plain: dict[str, list[Any]] = {}
    combinations = 1
    for place in range(draw(st.integers(1, 5))):
        name = f"knob{place}"
        when: dict[str, list[Any]] = {}
        if plain and draw(st.booleans()):
            parent = draw(st.sampled_from(sorted(plain)))
            when = {parent: draw(st.lists(st.sampled_from(plain[parent]), min_size=1, unique=True))}
        choice = draw(SCALARS | SPLITS) if place else draw(SCALARS)
        combinations *= len(choice if isinstance(choice, list) else factorisations(*choice))
        if combinations > MOST:
            break
        if isinstance(choice, list):
            plain[name] = choice
        knobs.append((name, choice, when))
    return Plan(template, knobs, draw(st.integers(2, 6)), draw(st.booleans()))
