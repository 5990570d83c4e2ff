"""Search space of one template, in the manner of AutoTVM's ConfigSpace."""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from templates.errors import InvalidConfig, InvalidSpace
from templates.spaces.codec import Codec
from templates.spaces.enumeration import Constraint, valid_codes
from templates.spaces.knob import (
    Config,
    Knob,
    Value,
    condition,
    copied,
    factorisations,
    quoted,
)
from templates.spaces.search_space import SearchSpace


class ConfigSpace(SearchSpace):
    """Knobs, splits and constraints of one template; a sequence of its valid configurations.

    Declare everything first: the first access to a configuration freezes the space. Indices are
    dense, 0 to len-1, in the order of the knobs, and the last knob varies fastest.
    """

    def __init__(self, template: str, version: int) -> None:
        self.template = template
        self.version = version
        self._knobs: dict[str, Knob] = {}
        self._constraints: list[Constraint] = []
        self._codes: array[int] | None = None
        self._codec = Codec(())

    # Declaring

    def knob(
        self, name: str, values: Sequence[Value], when: Mapping[str, Any] | None = None
    ) -> None:
        """Declare a choice between `values`: distinct JSON scalars, whose order is kept.

        With `when`, the knob exists only if each knob named there has the value given, or one of a
        list of values. Raise InvalidSpace if the declaration is wrong.
        """
        if any(isinstance(value, list) for value in values):
            raise InvalidSpace(f"knob {name!r}: declare lists with split()")
        self._add(Knob(name, tuple(values), condition(when, self._knobs)))

    def split(
        self,
        name: str,
        extent: int,
        parts: int,
        max_factor: int | None = None,
        when: Mapping[str, Any] | None = None,
    ) -> None:
        """Declare a knob whose values are all lists of `parts` integers with product `extent`.

        `max_factor` bounds all integers but the first, as in AutoTVM.
        """
        values = factorisations(extent, parts, max_factor)
        self._add(Knob(name, tuple(values), condition(when, self._knobs)))

    def constraint(
        self, name: str, holds: Callable[[Config], bool], reads: Sequence[str] = ()
    ) -> None:
        """Declare a condition for every configuration.

        `name` is shown to a user whose configuration breaks it. `holds` gets the knobs that are
        present, without the template, and must not keep or change the dict. It is called once for
        all configurations that agree on the knobs that it reads, so it must depend on nothing else.
        With `reads` it is called as soon as those knobs, and those before them, are set.
        """
        self._declaring()
        self._constraints.append(Constraint(name, holds, tuple(reads)))

    def freeze(self) -> None:
        """Enumerate the valid configurations. Raise SpaceTooLarge or InvalidSpace."""
        if self._codes is None:
            self._codec = Codec(self.knobs)
            self._codes = valid_codes(self.knobs, self._constraints)

    def _add(self, knob: Knob) -> None:
        self._declaring()
        if knob.name == "template":
            raise InvalidSpace("a knob can't be called 'template': configurations use that name")
        if knob.name in self._knobs:
            raise InvalidSpace(f"knob {quoted(knob.name)} is declared twice")
        self._knobs[knob.name] = knob

    def _declaring(self) -> None:
        """Raise InvalidSpace if the space is frozen."""
        if self._codes is not None:
            raise InvalidSpace(
                f"the space of {self.template!r} is frozen: declare before first use"
            )

    # Looking

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Return the knobs in the order of declaration."""
        return tuple(self._knobs.values())

    @property
    def _valid(self) -> array[int]:
        self.freeze()
        assert self._codes is not None  # noqa: S101  # freeze() has just set it
        return self._codes

    @property
    def parts(self) -> tuple[range, ...]:
        return (range(len(self)),)

    def __len__(self) -> int:
        return len(self._valid)

    def __getitem__(self, index: int) -> Config:
        place = operator.index(index)
        if not 0 <= place < len(self):
            raise IndexError(f"{place} is not in 0..{len(self) - 1}")
        return {"template": self.template} | self._codec.decode(self._valid[place])

    def index(self, config: object) -> int:
        self.freeze()
        knobs = self._knobs_of(config)
        place = self._place(self._codec.encode(knobs))
        if place is None:
            raise InvalidConfig(f"breaks the constraint: {self._broken(knobs)}")
        return place

    def __contains__(self, config: object) -> bool:
        """Return whether a configuration is valid, without enumerating the space."""
        try:
            knobs = self._knobs_of(config)
            Codec(self.knobs).encode(knobs)
        except InvalidConfig:
            return False
        return self._broken(knobs) is None

    def completed(self, config: Config) -> Config:
        """Return a configuration in which each knob that exists but is missing has its first value.

        The configuration may come from an earlier version of the template, without the knob.
        """
        whole = dict(config)
        for knob in self.knobs:
            if knob.present(whole):
                whole.setdefault(knob.name, copied(knob.values[0]))
        return whole

    def _knobs_of(self, config: object) -> Config:
        """Return a configuration without its template. Raise InvalidConfig if that differs."""
        if not isinstance(config, dict):
            raise InvalidConfig(f"a configuration is an object, not {type(config).__name__}")
        if config.get("template") != self.template:
            raise InvalidConfig(
                f"template: must be {self.template!r}, to which this space belongs, but is "
                f"{quoted(config.get('template'))}"
            )
        return {name: value for name, value in config.items() if name != "template"}

    def neighbours(self, index: int) -> list[int]:
        here = self[index]
        del here["template"]
        places = (self._place(code) for code in self._codec.neighbours(here))
        return sorted(place for place in places if place is not None)

    def _place(self, code: int) -> int | None:
        """Return the index of a code, or None if it is not valid."""
        place = bisect_left(self._valid, code)
        return place if place < len(self) and self._valid[place] == code else None

    def _broken(self, knobs: Config) -> str | None:
        """Return the name of the first constraint that does not hold, or None."""
        # In the order of enumeration, because a later constraint may rely on an earlier one.
        ordered = sorted(self._constraints, key=lambda c: c.depth(self.knobs))
        return next((each.name for each in ordered if not each.accepts(knobs)), None)
